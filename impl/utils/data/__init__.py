"""Data loading: the counterpart of ``torch.utils.data``.

A loader needs cloudpickle, which the extra ``samebits[data]`` installs::

    loader = impl.utils.data.DataLoader(dataset, batch_size=32, shuffle=True, num_workers=2,
                                        generator=impl.Generator(0))
    for images, labels in loader:
        ...
"""

# The modules: ``_loader`` is the loader, with ``_samplers`` and a ``_position``. ``_work`` goes to
# the processes of a ``_pool``, as ``_messages``; they make batches by ``_collate``.

from impl.utils.data._collate import default_collate as default_collate
from impl.utils.data._collate import default_convert as default_convert
from impl.utils.data._loader import DataLoader as DataLoader
from impl.utils.data._loader import DataLoaderIterator as DataLoaderIterator
from impl.utils.data._samplers import BatchSampler as BatchSampler
from impl.utils.data._samplers import RandomSampler as RandomSampler
from impl.utils.data._samplers import SequentialSampler as SequentialSampler
from impl.utils.data._work import WorkerInfo as WorkerInfo
from impl.utils.data._work import get_worker_info as get_worker_info
