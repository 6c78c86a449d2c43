"""Draws programs: a function of a seed, a number, and the programs drawn before.

Random programs that test a compiler are an old technique (Yang, Chen, Eide and Regehr 2011,
"Finding and understanding bugs in C compilers": Csmith; Liu and others 2023: NNSmith). Among
candidates, this grammar takes the token that it has drawn least for its weight; and every second
program has the least drawn one of all, so a few hundred programs have every token. It counts draws
alone, and no results of runs: so a seed gives the same programs on every machine.
"""

from __future__ import annotations

from collections import Counter

from conformance.hunt.pool import WEIGHTS, Dice, Pool
from conformance.hunt.program import Program
from conformance.hunt.tokens import TOKENS, Token

#: Each program whose number is a multiple has the token that was drawn least.
FOR_ONE = 2
#: Each program before whose number is a multiple ends with an operation that the guarantee refuses.
#: All refused operations take turns.
_REFUSED = 16
#: The bundles among a hundred programs: independent equations of one family of tokens, with
#: the values that are hard for it. XLA compiles ten of them nearly as fast as one.
_BUNDLES = 50
#: The tokens among which the least drawn one is taken.
_CANDIDATES = 3

Counts = Counter[str]


def draw(seed: int, index: int, counts: Counts, only: str = "") -> Program:
    """Returns the program of a number, and adds its tokens to ``counts`` of earlier draws.

    With ``only``, each program has a token whose name or primitives contain that text.
    """
    chosen = [each for each in TOKENS.values() if only in each.name or only in each.primitives]
    if not chosen:
        raise ValueError(f"--only {only}: no token contains it; see conformance/hunt/tokens")
    is_for_one = not only and index % FOR_ONE == 0
    if is_for_one:
        accepted = (each for each in chosen if not each.refused)
        chosen = [min(accepted, key=lambda each: counts[each.name] / each.weight)]
    names = {each.name for each in chosen}
    for attempt in range(1000):
        dice = Dice(f"program {index} of {seed}, {attempt}")
        program = _attempt(dice, index, counts, chosen if only or is_for_one else [])
        if program.outputs and names & program.tokens:
            counts.update(program.tokens)
            return program
    raise ValueError(f"--only {only}: no program of these tokens has a result")


def _attempt(dice: Dice, index: int, counts: Counts, needed: list[Token]) -> Program:
    refused = [each for each in needed or TOKENS.values() if each.refused]
    accepted = [each for each in TOKENS.values() if not each.refused]
    turn, rest = divmod(index + 1, _REFUSED)
    is_refused = bool(refused) and (rest == 0 or len(refused) == len(needed))
    if not is_refused and dice.happens(_BUNDLES):
        return _bundle(dice, counts, needed)
    dtype = dice.weighted(WEIGHTS["dtypes"])
    if is_refused:
        pool = Pool(dice, 0)
        for tokens in (accepted, accepted, [refused[turn % len(refused)]]):
            _add(pool, tokens, counts, dtype, "none")
        return pool.program(1, "none")
    rows = dice.choice((8, 16)) if dice.happens(50) else 0
    derivative = dice.weighted(WEIGHTS["derivatives"]) if "float" in dtype else "none"
    needed = [each for each in needed if not each.refused]
    length = int(dice.weighted(WEIGHTS["lengths"]))
    turn = dice.randrange(length)
    pool = Pool(dice, rows)
    for number in range(length):
        _add(pool, needed if needed and number == turn else accepted, counts, dtype, derivative)
    return pool.program(dice.randint(1, 3), derivative)


def _bundle(dice: Dice, counts: Counts, needed: list[Token]) -> Program:
    """Draws independent equations of one family, all of which are results."""
    families = WEIGHTS["families"]
    family = dice.weighted({name: each["weight"] for name, each in families.items()})
    drawn, dtype = families[family], dice.weighted(families[family]["dtypes"])
    derivatives = WEIGHTS["derivatives_of_functions"]
    derivative = dice.weighted(derivatives) if family == "functions" else "none"
    own = [each for each in TOKENS.values() if each.family == family and dtype in each.dtypes]
    pool = Pool(dice, dice.choice((8, 16)) if dice.happens(drawn.get("rows", 40)) else 0, drawn)
    chosen = [each for each in needed if each in own]
    for number in range(dice.randint(*drawn["lengths"])):
        tokens = chosen if chosen and number % 2 == 0 else own
        _add(pool, tokens, counts, dtype, derivative)
    return pool.program(1, derivative)


def _add(pool: Pool, tokens: list[Token], counts: Counts, dtype: str, derivative: str) -> None:
    """Adds an equation of one of some tokens, if one has operands."""
    free = [each for each in tokens if derivative == "none" or each.has_derivative]
    # A conversion or a comparison may have left variables of other dtypes.
    fitting = [each for each in free if dtype in each.dtypes]
    if not fitting and derivative == "none":
        fitting = free
    for _ in range(10 if fitting else 0):
        candidates = pool.dice.choices(fitting, [each.weight for each in fitting], k=_CANDIDATES)
        token = min(candidates, key=lambda each: counts[each.name] / each.weight)
        own = dtype if dtype in token.dtypes else pool.dice.choice(token.dtypes)
        pool.hard = token.hard if pool.dice.happens(50) else ""
        result = token.form(pool, own, token.options)
        if result is not None:
            pool.add(token.name, result)
            return
