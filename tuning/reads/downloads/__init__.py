"""Results of runs, and the library, as files.

A file is generated while it is sent, so the memory it takes doesn't depend on the run's size.
"""

from tuning.logs.neutral import EngineName
from tuning.reads.files import File, console_file

from .bundle import bundle_file
from .library import Exported, exportable, target_named
from .merged import MergedFormat, merged_file
from .records import RecordsFormat, Which, record_file
from .tables import COLUMNS, TableFormat, trial_file

__all__ = (
    "COLUMNS",
    "EngineName",
    "Exported",
    "File",
    "MergedFormat",
    "RecordsFormat",
    "TableFormat",
    "Which",
    "bundle_file",
    "console_file",
    "exportable",
    "merged_file",
    "record_file",
    "target_named",
    "trial_file",
)
