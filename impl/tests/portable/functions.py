"""Functions of JAX that have the same bits in every release, as do their derivatives.

``python -m impl.tests.portable.functions`` writes the digests to ``functions.toml``.
"""

import hashlib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import impl

FILE = Path(__file__).with_suffix(".toml")
X = np.linspace(0.05, 0.95, 12, dtype=np.float32).reshape(3, 4)
KEY = jax.random.key(0)
#: Beyond the domain of a function.
ABOVE_ONE = frozenset({"acosh"})
#: Indices that are clipped to 0 and 2.
BEYOND = np.array([-9, 5])

_LAX = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "erf"),
    *("erf_inv", "erfc", "exp", "exp2", "expm1", "log", "log1p", "logistic", "rsqrt", "sin"),
    *("sinh", "sqrt", "square", "tan", "tanh", "cumsum", "cumprod"),
)
_NN = (
    *("celu", "elu", "gelu", "glu", "hard_swish", "leaky_relu", "log_sigmoid", "log_softmax"),
    *("mish", "relu", "relu6", "selu", "sigmoid", "silu", "soft_sign", "softmax", "softplus"),
    *("squareplus", "standardize"),
)
_JNP = (
    *("log2", "log10", "mean", "median", "std", "var", "sum", "prod", "max", "min", "ptp"),
    *("clip", "sort", "linalg.norm"),
)
_RANDOM = (
    *("normal", "uniform", "gumbel", "exponential", "laplace", "logistic", "cauchy"),
    *("rademacher", "bernoulli", "maxwell"),
)


def _of_jnp(name):
    function = jnp.linalg.norm if name == "linalg.norm" else getattr(jnp, name)
    options = {} if name in ("log2", "log10", "clip") else {"axis": 1}
    if name == "clip":
        options = {"min": 0.2, "max": 0.6}
    return lambda x: function(x, **options)


def _triangle(x):
    """Returns the triangles of two matrices, which are not symmetric."""
    halves = jnp.stack([x.T @ x, 2 * x.T @ x]) + jnp.eye(4)
    return lax.linalg.cholesky(halves.at[:, 0].multiply(3), symmetrize_input=False)


def _vectors(x):
    """Returns the eigenvectors of a matrix whose eigenvalues are apart."""
    return jnp.linalg.eigh(x.T @ x + jnp.diag(jnp.arange(4.0)))[1]


def _polynomial(x):
    return jnp.polyval(X[0], x)


def _gradient(function):
    return jax.grad(lambda x: jnp.sum(function(x) ** 2))


#: The functions of one array.
FUNCTIONS = {
    **{f"lax.{name}": getattr(lax, name) for name in _LAX},
    **{f"nn.{name}": getattr(jax.nn, name) for name in _NN},
    **{f"jnp.{name}": _of_jnp(name) for name in _JNP},
    "nn.gelu(approximate=False)": lambda x: jax.nn.gelu(x, approximate=False),
    "scipy.special.logsumexp": lambda x: jax.scipy.special.logsumexp(x, axis=1),
    "lax.pow": lambda x: lax.pow(x, x + 1),
    "lax.atan2": lambda x: lax.atan2(x, x + 1),
    "lax.integer_pow": lambda x: lax.integer_pow(x, 3) + lax.integer_pow(x, -2),
    "jnp.matmul": lambda x: x @ x.T,
    "gather": lambda x: x[np.array([0, 0, 2])],
    "scatter": lambda x: x.at[np.array([0, 0])].add(x[:2]),
    "max_pool": lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 2), (1, 1), "SAME"),
    "mean_pool": lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2), (1, 1), "SAME"),
    "convolution": lambda x: lax.conv(x[None, None], x[None, None, :2, :2], (1, 1), "SAME"),
    "image.resize": lambda x: jax.image.resize(x, (6, 8), "bilinear"),
    "lax.linalg.cholesky": _triangle,
    "gradient of lax.linalg.cholesky": _gradient(_triangle),
    "lax.linalg.eigh": _vectors,
    "lax.linalg.svd": lambda x: jnp.linalg.svd(x, full_matrices=False)[0],
    "lax.fft": lambda x: jnp.fft.rfft(x).real,
    "lax.polynomial": _polynomial,
    "gradient of lax.polynomial": _gradient(_polynomial),
    "lax.scatter-max": lambda x: x.at[BEYOND].max(1.5 * x[:2], mode="clip"),
    "lax.scatter-min": lambda x: x.at[BEYOND].min(x[:2] / 2, mode="clip"),
    "segment_sum": lambda x: jax.ops.segment_sum(x, np.array([0, 0, 1]), 2),
}
#: The functions of a key.
DRAWS = {
    **{f"random.{name}": getattr(jax.random, name) for name in _RANDOM},
    "random.truncated_normal": lambda key, shape: jax.random.truncated_normal(key, -2, 2, shape),
    "random.gamma": lambda key, shape: jax.random.gamma(key, 2.0, shape),
    "initializers.lecun_normal": jax.nn.initializers.lecun_normal(),
    "initializers.glorot_uniform": jax.nn.initializers.glorot_uniform(),
    "initializers.normal": jax.nn.initializers.normal(0.02),
    "initializers.variance_scaling": jax.nn.initializers.variance_scaling(1, "fan_in", "normal"),
}


def _everything(x):
    found = {}
    for name, function in FUNCTIONS.items():
        at = x + 1 if name.rpartition(".")[2] in ABOVE_ONE else x
        value, derivative = jax.linearize(function, at)
        found[name] = value
        found[f"derivative of {name}"] = derivative(x)
        found[f"pullback of {name}"] = jax.linear_transpose(derivative, at)(jnp.ones_like(value))
    return found | {name: draw(KEY, shape=(3, 4)) for name, draw in DRAWS.items()}


def digests():
    """Returns the digest of each function's bits, with the bits of its derivatives."""
    with impl.deterministic(guarantee="portable"):
        lowered = jax.jit(_everything).lower(X)
    options = {"xla_backend_optimization_level": 0}
    results = lowered.compile(compiler_options=options)(X)
    return {
        name: hashlib.sha256(np.asarray(result).tobytes()).hexdigest()[:16]
        for name, result in sorted(results.items())
    }


if __name__ == "__main__":
    lines = [f'"{name}" = "{digest}"\n' for name, digest in digests().items()]
    FILE.write_text("# Written by `python -m impl.tests.portable.functions`.\n" + "".join(lines))
