import pytest

from conformance.lab.elementary import machine_code

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("\tadd.rn.f64 %fd1, %fd2, %fd3;", []),
        ("\tadd.f64 %fd1, %fd2, %fd3;", ["add.f64"]),
        ("\tmul.f32 %f1, %f2, %f3;", ["mul.f32"]),
        ("\tex2.approx.ftz.f32 %f1, %f2;", ["ex2.approx.ftz.f32"]),
        ("\tdiv.rn.f64 %fd1, %fd2, %fd3;", []),
        ("\tadd.s64 %rd1, %rd2, %rd3;", []),
    ],
)
def test_inexact(line, found):
    assert machine_code.inexact(line) == found
