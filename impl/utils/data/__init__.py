"""Data loading: the counterpart of ``torch.utils.data``.

A loader needs cloudpickle, which the extra ``samebits[data]`` installs::

    loader = impl.utils.data.DataLoader(dataset, batch_size=32, shuffle=True, num_workers=2,
                                        generator=impl.Generator(0))
    for images, labels in loader:
        ...
"""

# The modules: ``_loader`` is the loader, with its ``_arguments``, ``_samplers`` and ``_position``,
# which ``_state_file`` saves. ``_work`` is sent to the processes of a ``_pool``, over a
# ``_channel``, as ``_messages``. A ``_worker`` seeds its generators by ``_seeding``, knows its
# ``_worker_info``, and makes batches by ``_collate``.

from impl.utils.data._collate import default_collate as default_collate
from impl.utils.data._collate import default_convert as default_convert
from impl.utils.data._loader import DataLoader as DataLoader
from impl.utils.data._loader import DataLoaderIterator as DataLoaderIterator
from impl.utils.data._samplers import BatchSampler as BatchSampler
from impl.utils.data._samplers import RandomSampler as RandomSampler
from impl.utils.data._samplers import SequentialSampler as SequentialSampler
from impl.utils.data._worker_info import WorkerInfo as WorkerInfo
from impl.utils.data._worker_info import get_worker_info as get_worker_info
