"""A matrix product as people write it in Triton: one accumulator over K, or a new one every PART of K whose sum is added to a total."""

import torch
import triton
import triton.language as tl


@triton.jit
def _product(a, b, d, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PART: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    part = tl.zeros((BM, BN), tl.float32)
    for first in range(0, k, BK):
        at = first + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * k + at[None, :], mask=(rows[:, None] < m) & (at[None, :] < k), other=0.0)
        y = tl.load(b + at[:, None] * n + cols[None, :], mask=(at[:, None] < k) & (cols[None, :] < n), other=0.0)
        part = tl.dot(x, y, part, input_precision="tf32")
        if PART > 0:
            if (first + BK) % PART == 0:
                total += part
                part = tl.zeros((BM, BN), tl.float32)
    total += part
    tl.store(d + rows[:, None] * n + cols[None, :], total.to(d.dtype.element_ty), mask=(rows[:, None] < m) & (cols[None, :] < n))


def product(a, b, part=0):
    (m, k), n = a.shape, b.shape[1]
    d = torch.empty(m, n, dtype=a.dtype if a.element_size() > 1 else torch.bfloat16, device=a.device)
    _product[(triton.cdiv(m, 64), triton.cdiv(n, 64))](a, b, d, m, n, k, BM=64, BN=64, BK=32, PART=part)
    return d
