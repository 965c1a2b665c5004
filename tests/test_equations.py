"""Equations 1 to 8 against numbers worked out by hand and figures of the paper."""

from __future__ import annotations

import numpy as np
import pytest

from prfaas_opt.throughput import equations


def test_equation_1_kv_throughput_is_size_over_time() -> None:
    assert equations.kv_throughput(6.0e9, 2.0) == 3.0e9


def test_equation_2_scales_with_instances_not_gpus() -> None:
    assert equations.cluster_egress(512, 8, 2.0e9, 4.0) == 64 * 0.5e9


@pytest.mark.parametrize(("egress", "expected"), [(10.0e9, 2.0), (1.0e9, 0.5)])
def test_equation_3_is_the_lesser_of_compute_and_link(egress: float, expected: float) -> None:
    assert equations.prfaas_throughput(4, 2.0, egress, 2.0e9) == expected


def test_equation_3_takes_arrays() -> None:
    theta = equations.prfaas_throughput(4, np.array([2.0, 4.0]), 1.0e9, np.array([1.0e8, 2.0e9]))
    assert theta.tolist() == [2.0, 0.5]


def test_equation_4() -> None:
    assert equations.pd_prefill_throughput(3, 2.0) == 1.5


@pytest.mark.parametrize(("instances", "printed"), [(5, 3.91), (3, 2.34), (8, 6.25)])
def test_equation_5_gives_the_decode_rates_of_table_6(instances: int, printed: float) -> None:
    assert round(equations.pd_decode_throughput(instances, 20, 0.025, 1024), 2) == printed


def test_equation_6_is_the_tightest_stage() -> None:
    assert equations.system_throughput(1.0, 3.0, 5.0, 0.5) == 2.0
    assert equations.system_throughput(9.0, 1.0, 5.0, 0.5) == 2.0
    assert equations.system_throughput(9.0, 9.0, 5.0, 0.5) == 5.0


def test_equation_6_ignores_a_stage_that_serves_nobody() -> None:
    assert equations.system_throughput(None, 2.0, 5.0, 0.0) == 2.0
    assert equations.system_throughput(3.0, None, 5.0, 1.0) == 3.0


def test_equation_6_is_zero_where_a_needed_stage_is_missing() -> None:
    assert equations.system_throughput(3.0, None, 5.0, 0.5) == 0.0
    assert equations.system_throughput(None, 3.0, 5.0, 0.5) == 0.0


def test_equations_7_and_8_vanish_at_balance_and_point_the_right_way() -> None:
    assert equations.threshold_imbalance(1.0, 1.0, 0.5) == 0.0
    assert equations.threshold_imbalance(2.0, 1.0, 0.5) > 0
    assert equations.split_imbalance(1.0, 1.0, 2.0) == 0.0
