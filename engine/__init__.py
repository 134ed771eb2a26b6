"""A multi-LoRA engine whose KV cache and adapter weights share one pool of pages."""

__version__ = "0.1.0"
