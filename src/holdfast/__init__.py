"""Durable jobs in the database you already have."""

from holdfast.app import Holdfast
from holdfast.batch import AsyncBatch, Batch
from holdfast.client import Client
from holdfast.domain.event import Event
from holdfast.domain.job import Attempt, Job, Lease, NewJob
from holdfast.domain.key import Key
from holdfast.domain.outcome import Cancelled, Fatal, RetryAfter, Skip, Snooze
from holdfast.domain.retry import Retry
from holdfast.domain.states import State
from holdfast.errors import (
    Conflict,
    HoldfastError,
    IllegalMove,
    JobNotFound,
    LeaseLost,
    PayloadError,
    QueueFull,
    SettingError,
    StoreUnavailable,
    UnknownTask,
)
from holdfast.task import Task
from holdfast.worker.context import Context
from holdfast.worker.worker import Worker

__all__ = [
    "AsyncBatch",
    "Attempt",
    "Batch",
    "Cancelled",
    "Client",
    "Conflict",
    "Context",
    "Event",
    "Fatal",
    "Holdfast",
    "HoldfastError",
    "IllegalMove",
    "Job",
    "JobNotFound",
    "Key",
    "Lease",
    "LeaseLost",
    "NewJob",
    "PayloadError",
    "QueueFull",
    "Retry",
    "RetryAfter",
    "SettingError",
    "Skip",
    "Snooze",
    "State",
    "StoreUnavailable",
    "Task",
    "UnknownTask",
    "Worker",
]

__version__ = "0.1.0"
