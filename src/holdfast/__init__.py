"""Durable jobs in the database you already have."""

from holdfast.app import Holdfast
from holdfast.batch import AsyncBatch, Batch
from holdfast.client import Client
from holdfast.domain.access import ApiKey, NewApiKey, Scope
from holdfast.domain.delivery import Delivery
from holdfast.domain.event import Event
from holdfast.domain.explain import Explanation, Reason
from holdfast.domain.job import Attempt, Job, Lease, NewJob
from holdfast.domain.key import Key
from holdfast.domain.limits import Breaker, Rate
from holdfast.domain.meter import Meter
from holdfast.domain.outcome import Cancelled, Fatal, RetryAfter, Skip, Snooze
from holdfast.domain.queue import Queue
from holdfast.domain.retry import Retry
from holdfast.domain.secret import Secret
from holdfast.domain.states import State
from holdfast.domain.worker_status import WorkerStatus
from holdfast.errors import (
    Changed,
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
from holdfast.hooks import Hook
from holdfast.store.queue_settings import QueueChange
from holdfast.task import Task
from holdfast.worker.context import Context
from holdfast.worker.current import JobFilter, current_job
from holdfast.worker.worker import Worker

__all__ = [
    "ApiKey",
    "AsyncBatch",
    "Attempt",
    "Batch",
    "Breaker",
    "Cancelled",
    "Changed",
    "Client",
    "Conflict",
    "Context",
    "Delivery",
    "Event",
    "Explanation",
    "Fatal",
    "Holdfast",
    "HoldfastError",
    "Hook",
    "IllegalMove",
    "Job",
    "JobFilter",
    "JobNotFound",
    "Key",
    "Lease",
    "LeaseLost",
    "Meter",
    "NewApiKey",
    "NewJob",
    "PayloadError",
    "Queue",
    "QueueChange",
    "QueueFull",
    "Rate",
    "Reason",
    "Retry",
    "RetryAfter",
    "Scope",
    "Secret",
    "SettingError",
    "Skip",
    "Snooze",
    "State",
    "StoreUnavailable",
    "Task",
    "UnknownTask",
    "Worker",
    "WorkerStatus",
    "current_job",
]

__version__ = "0.1.0"
