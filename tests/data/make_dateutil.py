#!/usr/bin/env python3
"""Makes dateutil.json: what python-dateutil reads in times as administrators write them.

Run it with the Python of a virtual environment that has Salt. Each entry is a text and the times it
means on two days, or null where it means none.
"""

import datetime
import json
import os
import warnings

from dateutil import parser

warnings.simplefilter("ignore")
DAYS = (datetime.datetime(2026, 11, 21), datetime.datetime(2027, 2, 10))

times = ["5:00pm","5pm","5 pm","5:00 PM","17:00","17:00:30","12am","12:30 am","12pm","5:30:15pm","05:00","5:00 a.m.","17:00:30.5","5h","5h30m","10h 20m","1700","170030","0:00","23:59","5","25:00","13pm","0pm","noon","midnight","tea time"]
days = ["Tuesday","tue","Tue.","Tues","Thurs","thu","saturday","Sat","sun","wednesday","weds","today","tomorrow","Mon,","someday"]
dates = ["2026-11-21","2026/11/21","20261121","11/21/2026","21/11/2026","11-21-2026","21.11.2026","11/21/26","Nov 21, 2026","21 November 2026","Nov 21 2026","November 21st, 2026","21st of November 2026","Nov 21","21 Nov","Nov 2026","Nov","11/21","3rd","21-Nov-2026","Dec 31 1999","2024-02-29","2026-02-29","2026-13-01","Sept 5 2026","Sep 5 2026","Nov. 21 2026","01/02/03","10-09-08","2026-325","2026-11","12/2026","1/2/2027","31/12/2026","feb 29","Jun 31 2026","26-11-21"]
texts = []
texts += times+days+dates
texts += [d+" "+t for d in days for t in ["5:00pm","17:00","5pm"]]
texts += [d+" "+t for d in dates for t in ["5:00pm","17:00:30"]]
texts += [t+" "+d for d in ["Tuesday","2026-11-21","Nov 21 2026","11/21/2026","Nov 21"] for t in ["5:00pm","17:00","5 pm"]]
texts += ["2026-11-21T17:00","2026-11-21T17:00:00","20261121T170000","20261121T1700","2026-11-21T17","2026-11-21T17:00:00.250","2026-11-21 17:00:00,5","2026-11-21T17:00:00Z","2026-11-21T17:00:00+01:00","2026-11-21 17:00 UTC","Tuesday, Nov 24 2026 5:00pm","Tue Nov 24 17:00:00 2026","Sat Nov 21 2026","Mon Nov 21 2026 10:00","Tuesday at 5pm","Nov 21 at 5:00pm","5pm on Tuesday","Tue, 24 Nov 2026 17:00:00","Tuesday the 24th 5pm","",  " ", "5:00pm ", " 5:00PM", "TUESDAY 5:00PM","every day","20261121170000","202611211700","5:00pm Tuesday Nov","November 5:00pm","2026","2027 5pm","15 10:00","2026 Nov 21","10:00 21 Nov 2026"]


def read(text, day):
    try:
        return parser.parse(text, default=day).isoformat()
    except (ValueError, OverflowError):
        return None


lines = [json.dumps([text] + [read(text, day) for day in DAYS]) for text in dict.fromkeys(texts)]
with open(os.path.join(os.path.dirname(__file__), "dateutil.json"), "w") as out:
    out.write("[\n" + ",\n".join(lines) + "\n]\n")
