"""Tests of the mutants and of the program that runs them."""
