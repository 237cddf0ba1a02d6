"""The database tables, and the typed shapes in which API and socket show their rows."""

from tuning.engines.wire.protocol import KEEP_BEST
from tuning.storage.tables import Chunk, LooseObject, StoredFile

from .audit import LONGEST_NAME, AppendOnly, AuditEntry, AuditEntryDict, AuditQuerySet
from .compilation import Benchmark, Compilation
from .delivery import Delivery
from .elsewhere import Stream, StreamDict, StreamSession, Watch
from .extraction import ExtractedTask, Extraction
from .fleet import LOST, Machine, MachineQuerySet, Needs
from .history import EVER, Beat, Tally, TrackerSample
from .imported import BadLine, Import
from .lifecycle import LEASE, TELL_AGAIN, DeviceTurn, Leased, Queued, deciding, ended
from .network import Network, fingerprint, networks_dir
from .project import SEES_ALL, Membership, Project, project_of_token, roles_of, seen_by
from .run import RECORD_FILES, Run, RunQuerySet, measures_on
from .shapes import (
    Alert,
    BenchmarkDict,
    CompilationDict,
    CoverageDict,
    ExtractionDict,
    ImportDict,
    LatencyDict,
    NetworkDetail,
    RunDelta,
    RunDict,
    RunErrorDict,
    SessionDict,
    TaskDict,
    TrialColumns,
    WrittenDict,
    iso,
    storable,
    username,
)
from .tag import Tag
from .task import Provenance, Record, Task, TaskQuerySet, estimated_latency, provenance
from .trial import MAX_NUMBER, Trial, TrialError, TrialQuerySet, TrialRow, level_of_detail, step_for, trial_columns

__all__ = (
    "EVER",
    "KEEP_BEST",
    "LEASE",
    "LONGEST_NAME",
    "LOST",
    "MAX_NUMBER",
    "RECORD_FILES",
    "SEES_ALL",
    "TELL_AGAIN",
    "Alert",
    "AppendOnly",
    "AuditEntry",
    "AuditEntryDict",
    "AuditQuerySet",
    "BadLine",
    "Beat",
    "Benchmark",
    "BenchmarkDict",
    "Chunk",
    "Compilation",
    "CompilationDict",
    "CoverageDict",
    "Delivery",
    "DeviceTurn",
    "ExtractedTask",
    "Extraction",
    "ExtractionDict",
    "Import",
    "ImportDict",
    "LatencyDict",
    "Leased",
    "LooseObject",
    "Machine",
    "MachineQuerySet",
    "Membership",
    "Needs",
    "Network",
    "NetworkDetail",
    "Project",
    "Provenance",
    "Queued",
    "Record",
    "Run",
    "RunDelta",
    "RunDict",
    "RunErrorDict",
    "RunQuerySet",
    "SessionDict",
    "StoredFile",
    "Stream",
    "StreamDict",
    "StreamSession",
    "Tag",
    "Tally",
    "Task",
    "TaskDict",
    "TaskQuerySet",
    "TrackerSample",
    "Trial",
    "TrialColumns",
    "TrialError",
    "TrialQuerySet",
    "TrialRow",
    "Watch",
    "WrittenDict",
    "deciding",
    "ended",
    "estimated_latency",
    "fingerprint",
    "iso",
    "level_of_detail",
    "measures_on",
    "networks_dir",
    "project_of_token",
    "provenance",
    "roles_of",
    "seen_by",
    "step_for",
    "storable",
    "trial_columns",
    "username",
)
