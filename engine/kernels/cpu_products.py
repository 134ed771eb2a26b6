"""Which matrix products this CPU and this build of torch have, found out once by trying them.

oneDNN's packed weights need x86-64; in bfloat16 they need AVX-512 or AVX-NE-CONVERT as well. Builds of torch for
aarch64 and macOS lack the operators. Trying is the one answer that is right for all of them.
"""

from __future__ import annotations

from functools import cache

import torch

# The packed layout is chosen for a number of rows and serves every other; 16 is good from 1 to 256.
_ROWS_HINT = 16


def pack_weight(weight: torch.Tensor) -> torch.Tensor:
    """``[out, in]`` in oneDNN's blocked layout, opaque to all but ``packed_product``."""
    found: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _ROWS_HINT)
    return found


def packed_product(x: torch.Tensor, packed: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """``[rows, in]`` to ``[rows, out]``."""
    found: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
    return found


@cache
def packs(dtype: torch.dtype) -> bool:
    """Whether weights of ``dtype`` can be packed and multiplied with here."""
    weight, x = torch.eye(32, dtype=dtype), torch.arange(64, dtype=dtype).view(2, 32)
    try:
        return torch.equal(packed_product(x, pack_weight(weight), None), x)
    except (AttributeError, RuntimeError):  # no such operator in this build; no such instructions in this CPU
        return False


def products_text(dtype: torch.dtype) -> str:
    """For people: which products an engine of ``dtype`` runs here."""
    name = str(dtype).removeprefix("torch.")
    if packs(dtype):
        return f"oneDNN packed weights, {name}"
    if dtype == torch.bfloat16:
        return f"plain products in float32: this CPU packs no {name} weights"
    return f"plain products: no packed {name} weights here"
