"""Linear layers in the layout that the CPU multiplies fastest with.

oneDNN's blocked layout, packed once: from 2 to 32 rows it takes half the time of ``F.linear`` and of a transposed
copy, and for one row as long (AMD EPYC with AVX-512, one thread). Where it is missing float32 weights are kept
transposed, and bfloat16 ones as they are, widened for each product of two rows and more: without AVX-512 torch's own
bfloat16 product of 16 rows takes 4.5 times as long as that (AMD EPYC with AVX2, one thread).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from engine.kernels import cpu_products


class Linear:
    """``weight``: ``[out, in]``; ``bias``: ``[out]`` or None, of the same dtype."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self.nbytes = weight.nbytes
        self._bias = bias
        self._packed = cpu_products.packs(weight.dtype)
        self._transposed = not self._packed and weight.dtype == torch.float32
        if self._packed:
            self._weight = cpu_products.pack_weight(weight)
        else:
            self._weight = weight.t().contiguous() if self._transposed else weight.contiguous()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """``[rows, in]`` to ``[rows, out]``."""
        if self._packed:
            return cpu_products.packed_product(x, self._weight, self._bias)
        if self._transposed:
            return x @ self._weight if self._bias is None else torch.addmm(self._bias, x, self._weight)
        if x.shape[0] == 1:
            return F.linear(x, self._weight, self._bias)
        bias = None if self._bias is None else self._bias.float()
        return F.linear(x.float(), self._weight.float(), bias).to(x.dtype)
