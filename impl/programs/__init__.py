"""The mode over any JAX program: its rules, the audit, and the search for the first difference."""
