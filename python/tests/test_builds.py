"""The choice among the builds of a wheel."""

import pytest

from rounds import _builds, instruction_set
from rounds._builds import _V3, _V4, choose


def test_the_best_build_that_processor_and_limit_allow():
    assert choose(_V4, None) == "v4" and choose(_V3, None) == "v3"
    assert choose(_V4, "v3") == "v3" and choose(_V4, "scalar") == "v3" and choose(_V4, "amx") == "v4"
    assert choose(_V3, "v4") == "v3"
    with pytest.raises(ImportError, match="lacks avx2"):
        choose(_V3 - {"avx2"}, None)
    with pytest.raises(ImportError, match="ROUNDS_ISA=v5"):
        choose(_V4, "v5")


def test_the_processor_is_known():
    assert _V3 <= _builds.processor()
    assert instruction_set()
