"""Many requests of one key at once, by requests. Arguments: URL, key, how many. Prints what each was answered."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import requests

url, key, count = sys.argv[1], sys.argv[2], int(sys.argv[3])


def ask(_):
    response = requests.post(
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
