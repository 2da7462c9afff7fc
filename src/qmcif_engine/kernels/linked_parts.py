"""Functions that become part of the compiled functions which call them.

Numba by itself makes machine code of every function, and optimizes it again in each that calls it. Here a function that another one calls
is typed once, and optimized and turned into machine code with its caller; one that is called from Python becomes a kernel of its own. A new
installation waits for the compiler once, so it must not do anything twice.

All this builds on the insides of numba, so it is used only with the releases it was tried with
(`qmcif_engine.kernels.compilation.RELEASES`).
"""

from __future__ import annotations

import dis
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import llvmlite.binding
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher
from numba.core.runtime.nrt import rtsys

from qmcif_engine.kernels.compilation import ForgivingCache
from qmcif_engine.kernels.undisturbed import undisturbed

if TYPE_CHECKING:
    from collections.abc import Callable

_Untyped: TypeAlias = Any
"""Numba's own things, which it gives no types."""

_OPTIONS = {"nopython": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


class QuickCache(ForgivingCache):
    """A cache that reads stored code without loading the compiler."""

    def load_overload(self, sig: object, target_context: object) -> object:
        """Return stored machine code, or None where none can be read.

        Numba would first load all that it needs for compiling, a third of a second; code that is there needs the runtime only.
        """
        rtsys.initialize(target_context)
        with suppress(OSError), self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        return None


class Part(CPUDispatcher):
    """A function as other compiled functions see it; Python sees a kernel of its own, made when it is first called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, targetoptions={**_OPTIONS, "no_cpython_wrapper": True}, pipeline_class=PartCompiler)

    @cached_property
    def kernel(self) -> _Untyped:
        """The function as Python calls it."""
        kernel: _Untyped = CPUDispatcher(self.py_func, targetoptions=_OPTIONS, pipeline_class=KernelCompiler)
        with suppress(RuntimeError):  # no place for the code: it is compiled again in every process
            kernel._cache = QuickCache(self.py_func)  # type: ignore[no-untyped-call]
        return kernel

    def add_overload(self, cres: _Untyped) -> None:
        """Keep a part for its callers only: Python could not call it."""
        self.overloads[tuple(cres.signature.args)] = cres

    def _compile_for_args(self, *_args: object, **_keywords: object) -> _Untyped:
        """Return what answers a call from Python, for which nothing is compiled here."""
        return self.kernel


class KernelCompiler(Compiler):
    """Numba's compiler, left undisturbed."""

    def compile_extra(self, func: Callable[..., object]) -> _Untyped:
        """Compile a function."""
        self.state.library = KernelLibrary(self.state.targetctx.codegen(), func.__qualname__)  # type: ignore[no-untyped-call]
        self.state.library.enable_object_caching()
        with undisturbed():
            return super().compile_extra(func)  # type: ignore[no-untyped-call]


class KernelLibrary(JITCodeLibrary):
    """The machine code of a function."""

    def serialize_using_object_code(self) -> tuple[str, str, tuple[bytes, bytes]]:
        """Return what is stored: the machine code, and the names of its functions.

        Numba looks for the names in the code before it was compiled, of which they are all that is needed here: parts come from elsewhere.
        """
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        names = [function.name for function in self._final_module.functions if not function.is_declaration]
        outline = llvmlite.binding.parse_assembly("".join(f'define void @"{name}"() {{ ret void }}\n' for name in names))
        return self.name, "object", (self._get_compiled_object(), outline.as_bitcode())  # type: ignore[no-untyped-call]


class PartCompiler(Compiler):
    """Numba's compiler for functions that are to be linked into others."""

    def compile_extra(self, func: Callable[..., object]) -> _Untyped:
        """Compile a function as far as its callers need it."""
        self.state.library = PartLibrary(self.state.targetctx.codegen(), func)
        return super().compile_extra(func)  # type: ignore[no-untyped-call]


class PartLibrary(JITCodeLibrary):
    """The code of a function and of those it calls, as it is before it is optimized.

    A function with a loop is not copied into its callers: as many copies would have to be optimized, and in a small function the compiler
    sees best that a loop can use vector instructions.
    """

    def __init__(self, codegen: _Untyped, function: Callable[..., object]) -> None:
        super().__init__(codegen, function.__qualname__)  # type: ignore[no-untyped-call]
        self._has_loop = any(step.opname == "FOR_ITER" or "BACKWARD" in step.opname for step in dis.get_instructions(function))

    def finalize(self) -> None:
        """Link what is called, and leave the rest to the callers."""
        self._raise_if_finalized()  # type: ignore[no-untyped-call]
        if self._has_loop:
            for function in self._final_module.functions:
                if not function.is_declaration:
                    function.add_function_attribute("noinline")
        # each once, in the order of the calls
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return no address: a part has none."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return 0

    @property
    def codegen(self) -> PartLibrary:
        """Whom numba asks to connect the code with its Python environment, of which a part has no use: no error names its line."""
        return self

    def set_env(self, env_name: str, env: object) -> None:
        """Connect nothing."""
