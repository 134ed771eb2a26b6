"""Rotary position embeddings (Su et al., 2021, arXiv:2104.09864), with Llama 3's and linear scaling."""

from __future__ import annotations

import math

import torch

from engine.model_folder import ModelConfig


def inverse_frequencies(config: ModelConfig) -> torch.Tensor:
    """``[head_dim / 2]``, float32."""
    dim = config.shape.head_dim
    frequencies = 1.0 / config.rope_theta ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    rope = config.rope
    if rope["rope_type"] == "linear":
        return frequencies / float(rope["factor"])
    if rope["rope_type"] == "llama3":
        return _llama3(frequencies, rope)
    return frequencies


def _llama3(frequencies: torch.Tensor, rope: dict[str, float]) -> torch.Tensor:
    """Long wavelengths are stretched by ``factor``, short ones stay, those between are interpolated."""
    factor, low, high = float(rope["factor"]), float(rope["low_freq_factor"]), float(rope["high_freq_factor"])
    original = float(rope["original_max_position_embeddings"])
    wavelengths = 2 * math.pi / frequencies
    smooth = ((original / wavelengths - low) / (high - low)).clamp(0.0, 1.0)
    return (1 - smooth) * frequencies / factor + smooth * frequencies


class RotaryTable:
    """cos and sin of every position, ``[positions, head_dim]`` each, in the dtype that Hugging Face computes with.

    The first half of the sines is negated here, once, so that ``rotate`` need not negate half of each row.
    """

    def __init__(self, config: ModelConfig, positions: int, dtype: torch.dtype) -> None:
        angles = torch.outer(torch.arange(positions, dtype=torch.float32), inverse_frequencies(config))
        self._cos = torch.cat((angles, angles), dim=-1).cos().to(dtype)
        self._sin = torch.cat((-angles, angles), dim=-1).sin().to(dtype)

    def at(self, positions: torch.Tensor, heads: int, still: int) -> tuple[torch.Tensor, torch.Tensor]:
        """``[tokens, heads + still, head_dim]`` each: the last ``still`` heads are not turned."""
        shape = (len(positions), heads + still, self._cos.shape[1])
        cos, sin = self._cos.new_ones(shape), self._sin.new_zeros(shape)
        cos[:, :heads] = self._cos[positions].unsqueeze(1)
        sin[:, :heads] = self._sin[positions].unsqueeze(1)
        return cos, sin


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """``x``: ``[tokens, heads, head_dim]``; halves are rotated, as in Hugging Face's layout."""
    return torch.roll(x, x.shape[-1] // 2, -1).mul_(sin).addcmul_(x, cos)
