"""The Celery application of `test_kombu.py`; the environment has the broker's address and the directory of results."""

import os

from celery import Celery

app = Celery("tasks", broker=os.environ["PEEKLOCK_CELERY_BROKER"], backend=os.environ["PEEKLOCK_CELERY_RESULTS"])
app.conf.update(
    task_default_queue=os.environ["PEEKLOCK_CELERY_QUEUE"],
    broker_transport_options={"wait_time_seconds": 1, "queue_name_prefix": "celery-"},
    broker_connection_retry_on_startup=False,
    # The transport does not support broadcasts.
    worker_enable_remote_control=False,
    worker_send_task_events=False,
    task_acks_late=True,
)


@app.task
def add(a, b):
    return a + b


@app.task(bind=True, max_retries=2, default_retry_delay=0)
def fails_once(self):
    if self.request.retries == 0:
        raise self.retry()
    return self.request.retries
