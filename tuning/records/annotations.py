"""The annotations that a schedule may put on blocks and loops, each with the type of its value.

TVM's code generators act on annotations: `pragma_import_llvm` has them link LLVM's code, `pragma_import_c` compile a program in C.
"""

from __future__ import annotations

from typing import Annotated, Any, Union

from msgspec import Meta

Whole = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
Wholes = Annotated[list[Whole], Meta(max_length=64)]
Word = Annotated[str, Meta(pattern=r'^"[A-Za-z0-9_.\-]{0,128}"\Z')]
"""A string of a trace, where names of variables have no quotes."""
Variable = Annotated[str, Meta(pattern=r"^v[0-9]{1,6}\Z")]
"""A sampled number."""
Number = Union[Whole, Variable]

_SCOPES = ("tir", "tirx", "s_tir")
"""What TVM called its package of functions."""
KEYS: dict[str, Any] = {
    "auto_copy": Whole,
    "buffer_dim_align": Annotated[list[Annotated[list[Wholes], Meta(max_length=64)]], Meta(max_length=64)],
    "double_buffer_scope": Whole,
    "local_stage": Whole,
    "meta_schedule.auto_tensorize": Word,
    "meta_schedule.auto_tensorize_init": Word,
    "meta_schedule.cache_type": Whole,
    "meta_schedule.cooperative_fetch": Number,
    "meta_schedule.inline_rule": Word,
    "meta_schedule.layout_rewrite_preproc": Whole,
    "meta_schedule.parallel": Number,
    "meta_schedule.random_compute_producer": Whole,
    "meta_schedule.thread_extent_high_inclusive": Whole,
    "meta_schedule.thread_extent_low_inclusive": Whole,
    "meta_schedule.tiling_structure": Word,
    "meta_schedule.unroll_explicit": Number,
    "meta_schedule.unroll_implicit": Number,
    "meta_schedule.vectorize": Number,
    "meta_schedule.warp_execution": Whole,
    "meta_schedule.write_cache_level": Wholes,
    "permuted_layout": Word,
    "pragma_auto_unroll_max_step": Number,
    "pragma_unroll_explicit": Number,
    "schedule_rule": Word,
    "software_pipeline_async_stages": Wholes,
    "software_pipeline_order": Wholes,
    "software_pipeline_stage": Wholes,
    "vector_bytes": Whole,
    "warp_execution": Whole,
    **{f"{scope}.manifest_shared_memory_local_stage": Whole for scope in _SCOPES},
}
