"""A limit on everything that can grow, named with its unit."""

from __future__ import annotations

from typing import Final

PAYLOAD_BYTES_MAX: Final = 1024 * 1024
RESULT_BYTES_MAX: Final = 1024 * 1024
EVENT_BYTES_MAX: Final = 64 * 1024
PROGRESS_BYTES_MAX: Final = 16 * 1024
META_BYTES_MAX: Final = 64 * 1024
JSON_DEPTH_MAX: Final = 64
INTEGER_MAX: Final = 2**63 - 1
INTEGER_MIN: Final = -INTEGER_MAX  # not -2**63: what can be said can also be negated

ERROR_MESSAGE_CHARS_MAX: Final = 8_000
TRACEBACK_CHARS_MAX: Final = 32_000
REASON_CHARS_MAX: Final = 2_000

NAME_CHARS_MAX: Final = 128
ID_CHARS_MAX: Final = 200
KEY_BYTES_MAX: Final = 1_000
CALLBACK_CHARS_MAX: Final = 2_000
CALLBACK_BODY_BYTES_MAX: Final = 20_000
TAGS_MAX: Final = 32

ATTEMPTS_MAX: Final = 10_000
PRIORITY_MAX: Final = 2**31 - 1
SECONDS_MAX: Final = 100 * 365 * 86_400

EVENTS_PER_JOB_MAX: Final = 1_000_000
ERRORS_PER_JOB_MAX: Final = 100
METERS_PER_JOB_MAX: Final = 32
METER_MAX: Final = 1e100  # so that no sum of a day, over any number of jobs, is more than a double holds

BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
FILING_BYTES_MAX: Final = 4 * 1024 * 1024
EVENTS_WAITING_MAX: Final = 100_000
EVENTS_WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
ENQUEUE_BATCH_MAX: Final = 2_000
SMALL_ENQUEUE_MAX: Final = 16
CLAIMED_SLICE_MAX: Final = 250
CLAIM_BATCH_MAX: Final = 1_000
SETTLE_BATCH_MAX: Final = 2_000
PRUNE_BATCH_MAX: Final = 500
PRUNE_EVENTS_MAX: Final = 20_000
EXPIRE_BATCH_MAX: Final = 500
PROMOTE_BATCH_MAX: Final = 1_000
PAGE_MAX: Final = 1_000
EVENTS_PAGE_MAX: Final = 1_000

CONCURRENCY_MAX: Final = 10_000
LEASE_SECONDS_MIN: Final = 0.2

API_KEYS_MAX: Final = 1_000
KEY_QUEUES_MAX: Final = 100
PASSES_DROPPED_MAX: Final = 1_000
