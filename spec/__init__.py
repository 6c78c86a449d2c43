"""The spec of samebits: rows that decide the documents, the tests and the code.

The rows and vocabularies are the TOML files of this package; ``load`` reads them.
"""

from typing import TYPE_CHECKING

from spec.conditions import check_facts as check_facts
from spec.conditions import deciding_row as deciding_row
from spec.conditions import holds as holds
from spec.loader import default_profile as default_profile
from spec.loader import load as load
from spec.loader import platforms as platforms
from spec.loader import read as read
from spec.model import BEHAVIOURS as BEHAVIOURS
from spec.model import EFFECTS as EFFECTS
from spec.model import KINDS as KINDS
from spec.model import Behaviour as Behaviour
from spec.model import Data as Data
from spec.model import Device as Device
from spec.model import Direction as Direction
from spec.model import Document as Document
from spec.model import Effect as Effect
from spec.model import Erratum as Erratum
from spec.model import Fact as Fact
from spec.model import Facts as Facts
from spec.model import FactValue as FactValue
from spec.model import Guarantee as Guarantee
from spec.model import Kind as Kind
from spec.model import OptionValue as OptionValue
from spec.model import Order as Order
from spec.model import Portability as Portability
from spec.model import PortableAnswer as PortableAnswer
from spec.model import Primitive as Primitive
from spec.model import Profile as Profile
from spec.model import Row as Row
from spec.model import Source as Source
from spec.model import Spec as Spec
from spec.model import SpecError as SpecError
from spec.resolve import Answer as Answer
from spec.resolve import check_question as check_question
from spec.resolve import effect_of_primitive as effect_of_primitive
from spec.resolve import portability as portability
from spec.resolve import portable_answer as portable_answer
from spec.resolve import portable_classes as portable_classes
from spec.resolve import resolve as resolve
from spec.resolve import resolve_primitive as resolve_primitive
from spec.resolve import varies as varies

if TYPE_CHECKING:
    #: The names of the devices that JAX has a platform for.
    DEVICES: tuple[str, ...]
else:

    def __getattr__(name: str) -> object:
        # Not read on import: `python -m spec check` has to start if devices.toml is malformed.
        if name == "DEVICES":
            return tuple(d.name for d in load().devices.values() if d.platforms)
        raise AttributeError(f"module 'spec' has no attribute {name!r}")
