"""``g35_validate.serving``: the published comparison as parameters, and what a site demands of its result.

Defaults are the published method's; thresholds and where they come from are in docs/serving.md.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from g35ctl.site.fields import Strict
from g35ctl.site.sizes import Bytes

Ratio = Annotated[float, Field(gt=0, le=100)]
Share = Annotated[float, Field(ge=0, le=1)]


class ServingThresholds(Strict):
    """What the serving suite must show. Ratios compare path g35 with path memory at the same number of users."""

    hit_of_ceiling: Share = Field(0.98, description="Hit rate of path g35 as a share of the workload's ceiling")
    hit_of_ceiling_warn: Share = Field(0.95, description="Below hit_of_ceiling but not below this: WARN")
    hit_deficit: Share = Field(0.005, description="How far the hit rate of g35 may lie below that of memory")
    hit_deficit_warn: Share = Field(0.02, description="Above hit_deficit but not above this: WARN")
    mean_ratio: Ratio = Field(1.10, description="Mean TTFT of g35 against memory")
    mean_ratio_warn: Ratio = Field(1.25, description="Above mean_ratio but not above this: WARN")
    p99_ratio: Ratio = Field(1.15, description="P99 of TTFT of g35 against memory")
    p99_ratio_warn: Ratio = Field(1.5, description="Above p99_ratio but not above this: WARN")
    tail: Ratio = Field(2.0, description="P99 of TTFT against its mean, path g35")
    tail_warn: Ratio = Field(3.0, description="Above tail but not above this: WARN")
    variation: Share = Field(0.10, description="Coefficient of variation of the mean over three or more trials")
    variation_warn: Share = Field(0.20, description="Above variation but not above this: WARN")
    growth: Ratio = Field(1.25, description="Mean TTFT at most users against fewest, path g35")
    growth_warn: Ratio = Field(1.5, description="Above growth but not above this: WARN")
    ttft_bound: float = Field(
        0.0, ge=0, description="Bound of the mean TTFT, seconds: which path holds it with how many users; 0: not asked"
    )
    hit_ttft: Ratio = Field(0.6, description="Mean TTFT of turns that claim hits against cold ones; above it: FAIL")


class ServingBench(Strict):
    """The serving suite: N users with long contexts, three cache paths."""

    users: Annotated[tuple[Annotated[int, Field(ge=1, le=4096)], ...], Field(min_length=1)] = Field(
        (8, 16, 32, 48), description="Numbers of active users"
    )
    paths: Annotated[tuple[Literal["local", "memory", "g35"], ...], Field(min_length=1)] = Field(
        ("local", "memory", "g35"), description="Cache paths; other than g35 the site is changed for the measurement"
    )
    rate: float = Field(8.0, gt=0, le=10000, description="Requests per second and node (host of group gpu_hosts)")
    context: int = Field(160000, ge=16, description="Tokens of a user's first prompt")
    shared_prefix: int = Field(0, ge=0, description="Of these, tokens that all users have in common")
    new_tokens: int = Field(2500, ge=1, description="Tokens that each further turn adds")
    output_tokens: int = Field(100, ge=1, le=65536, description="Tokens of an answer")
    rounds: int = Field(5, ge=1, le=1000, description="Turns of each user")
    trials: int = Field(2, ge=1, le=20, description="Trials of everything, interleaved over the paths")
    seed: int = Field(35, description="Seed of the prompts")
    generator: Literal["auto", "aiperf", "builtin"] = Field(
        "auto", description="Load generator; auto: aiperf where it is installed on the controller"
    )
    tokenizer: str = Field("", description="aiperf: directory of the model's tokenizer on the controller")
    agreement: bool = Field(False, description="Measure one point with both generators and compare them")
    reach: Literal["ssh", "direct"] = Field(
        "ssh", description="How the controller reaches routers and engines: through ssh, or their addresses directly"
    )
    trace: str = Field(
        "", description="Replay this trace (timestamp, input_length, output_length, hash_ids) in the place of users"
    )
    trace_speed: float = Field(1.0, gt=0, le=1000, description="How many times as fast as it was recorded")
    timeout: int = Field(600, ge=1, le=7200, description="Longest answer, seconds")
    local_memory: Bytes = Field(
        0, ge=0, description="Path local: memory of each store, without flash; 0: the site's segment_size"
    )
    memory_memory: Bytes = Field(
        0, ge=0, description="Path memory: memory of each store; 0: what the most users need, and a quarter"
    )
    thresholds: ServingThresholds = Field(default_factory=ServingThresholds, description="What must be shown")
