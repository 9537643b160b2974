"""Products that a compiler contracts into sums in code for a GPU: what is asked of them, and answered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Contraction:
    """One line of a kernel where products are contracted.

    by: the compiler, LLVM or ptxas. line, text: of the kernel's source. instructions: what is left of product
    and sum, one for each element that a thread computes: of PTX where LLVM made it, else of machine code.
    """

    kernel: str
    by: str
    line: int
    text: str
    instructions: tuple[str, ...]


@dataclass(frozen=True)
class Site:
    """A contraction with the calls of the graph that it joins; "" where the product or the sum is part of a
    library function or a division. where: the user's `file:line`.

    denied_by: decisions that remove it when denied alone; settings: flags that do, as `NAME=VALUE`. Each was
    tried: the code that it leads to has no such contraction.
    """

    contraction: Contraction
    product: str
    consumer: str
    where: str
    denied_by: tuple[str, ...]
    settings: tuple[str, ...]


@dataclass(frozen=True)
class ContractionsAsked:
    """kind: what the target is, as in LoadOptions. architecture: the compute capability, 90 for sm_90. call:
    from 0, among the recorded ones."""

    target: str
    kind: str
    architecture: int
    call: int = 0


@dataclass(frozen=True)
class ContractionsFound:
    """kernels: the names of all. problem: why nothing is known."""

    kernels: tuple[str, ...] = ()
    sites: tuple[Site, ...] = ()
    problem: str = ""
