"""Linear layers on every kind of CPU: packed where it can be, and forced to do without."""

from __future__ import annotations

import pytest
import torch

from engine.kernels import cpu_products
from engine.kernels.cpu_linear import Linear

DTYPES = [torch.float32, torch.bfloat16]


@pytest.fixture(params=["as this CPU can", "plain", "no such operator", "no such instructions"])
def cpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What torch says on other machines: AttributeError from builds without oneDNN, RuntimeError from older CPUs."""
    missing = {"no such operator": AttributeError("'_OpNamespace' 'mkldnn' object has no attribute"),
               "no such instructions": RuntimeError("bf16 path needs the cpu support avx512bw")}  # fmt: skip

    def refuse(*_arguments: object) -> torch.Tensor:
        raise missing[request.param]

    if request.param == "plain":
        monkeypatch.setattr(cpu_products, "packs", lambda _dtype: False)
    elif request.param in missing:
        monkeypatch.setattr(cpu_products, "pack_weight", refuse)
        monkeypatch.setattr(cpu_products, "packs", cpu_products.packs.__wrapped__)
    return str(request.param)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows", [1, 2, 7, 40])
@pytest.mark.parametrize("biased", [False, True])
def test_equals_float64(cpu: str, dtype: torch.dtype, rows: int, biased: bool) -> None:
    generator = torch.Generator().manual_seed(rows)
    weight, x = (torch.randn(*size, generator=generator).to(dtype) for size in ((48, 80), (rows, 80)))
    bias = torch.randn(48, generator=generator).to(dtype) if biased else None
    exact = x.double() @ weight.double().t() + (0 if bias is None else bias.double())
    found = Linear(weight, bias)(x)
    assert found.dtype == dtype
    limit = {torch.float32: 1e-6, torch.bfloat16: 5e-3}[dtype]
    assert float((found.double() - exact).norm() / exact.norm()) < limit


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_says_which_product_runs(cpu: str, dtype: torch.dtype) -> None:
    text = cpu_products.products_text(dtype)
    if cpu != "as this CPU can":
        assert not cpu_products.packs(dtype)
    assert text.startswith("oneDNN packed weights" if cpu_products.packs(dtype) else "plain products")
