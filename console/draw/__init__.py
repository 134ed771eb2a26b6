"""Pure drawing maths: values in, text and style keys out. Nothing here knows a widget."""
