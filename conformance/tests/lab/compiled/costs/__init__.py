"""Tests of the costs of programs, without compiling one."""
