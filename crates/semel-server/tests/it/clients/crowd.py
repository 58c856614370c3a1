"""Many requests of one key at once, by requests. Arguments: URL, key, how many. Prints what each was answered."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

url, key, count = sys.argv[1], sys.argv[2], int(sys.argv[3])


def ask(_):
    session = requests.Session()
    # A crowd fills the queue of a listening socket, and some connections are reset.
    session.mount("http://", HTTPAdapter(max_retries=Retry(total=60, allowed_methods=None)))
    response = session.post(
        url,
        data='{"amount":100}',
        headers={
            "Content-Type": "application/json",
            "Idempotency-Key": f'"{key}"',
            "Authorization": "Bearer ann",
        },
        timeout=600,
    )
    return {
        "status": response.status_code,
        "body": response.text,
        "replayed": response.headers.get("Idempotency-Replayed"),
    }


with ThreadPoolExecutor(count) as threads:
    print(json.dumps(list(threads.map(ask, range(count)))))
