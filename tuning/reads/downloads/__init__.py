"""A run's results as files.

A file is generated while it is sent, so the memory it takes doesn't depend on the run's size.
"""

from tuning.reads.files import File, console_file

from .merged import MergedFormat, merged_file
from .records import RecordsFormat, Which, record_file
from .tables import COLUMNS, TableFormat, trial_file

__all__ = (
    "COLUMNS",
    "File",
    "MergedFormat",
    "RecordsFormat",
    "TableFormat",
    "Which",
    "console_file",
    "merged_file",
    "record_file",
    "trial_file",
)
