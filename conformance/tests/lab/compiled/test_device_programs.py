"""The launches that XLA lists of a program."""

from conformance.lab.compiled import device_programs
from conformance.lab.compiled.device_programs import Dimensions

LIST = """\
001: kCustomKernel [source       | next=002 (1)] loop_convert_fusion grid: [1954, 1, 1] \
threads: [128, 1, 1]  shared_memory: 0 bytes
050: kCopy         [source       | next=051 (1)] kCopy
051: kWhile        [prev=050 (1) | next=057 (1)]
condition:
    052: kCustomKernel [source | sink] loop_compare_fusion grid: [1, 1, 1] threads: [1, 1, 1]  \
shared_memory: 0 bytes
058: kCustomKernel [prev=057 (1) | next=060 (2)] scatter_add_ordered_fold grid: [625, 10, 1] \
threads: [128, 1, 1]  shared_memory: 16 bytes
"""


def test_each_launch_has_its_size():
    assert device_programs.parse_dimensions(LIST) == {
        "loop_convert_fusion": Dimensions(1954, 4, 0),
        "loop_compare_fusion": Dimensions(1, 1, 0),
        "scatter_add_ordered_fold": Dimensions(6250, 4, 16),
    }


def test_the_description_of_a_gpu_gets_the_name_for_which_xla_has_a_table():
    text = device_programs.description_with_table("h200")
    assert text.count('"NVIDIA H100 80GB HBM3"') == 2
    assert "NVIDIA H200" not in text
    assert 'cub_version: "3.1.2"' in text
