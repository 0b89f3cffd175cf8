"""Checks a trace of a loader's run: spans of a thread nest, arrows and asynchronous pairs match,
and every batch that was taken was opened, made and published before.

Usage: check_profile.py TRACE N_BATCHES
"""
import json, re, sys

trace = json.load(open(sys.argv[1], encoding='utf-8'))
n_batches = int(sys.argv[2])
events, faults = trace['traceEvents'], []


def check(ok, text):
    if not ok:
        faults.append(text)


def of(phase, **wanted):
    return [e for e in events if e['ph'] == phase and all(e.get(k) == v for k, v in wanted.items())]


documented = set(re.findall(r'^\| `traceEvents\[\]\.([^`]+)`', open('docs/json.md', encoding='utf-8').read(), re.M))
for e in events:
    for key in [k for k in e if k != 'args'] + ['args.' + k for k in e.get('args', {})]:
        check(key in documented, '%s is not documented' % key)
check(trace['displayTimeUnit'] == 'ms', 'displayTimeUnit')
check(trace['otherData']['dropped_events'] == 0, 'dropped events')
check(len({e['pid'] for e in events}) == 1, 'one process')
tracks = {e['tid'] for e in events if e['ph'] == 'X'}
check(tracks <= {e['tid'] for e in of('M', name='thread_name')}, 'every track has a name')
check(len([e for e in of('M', name='thread_name') if e['args']['name'].endswith(', consumer')]) == 1, 'one consumer')
for track in tracks:
    open_until = []
    for e in sorted((e for e in of('X') if e['tid'] == track), key=lambda e: (e['ts'], -e['dur'])):
        while open_until and open_until[-1] <= e['ts'] + 1e-9:
            open_until.pop()
        end = e['ts'] + e['dur']
        check(not open_until or end <= open_until[-1] + 1e-3, 'spans of track %d overlap at %f' % (track, e['ts']))
        open_until.append(end)
left = {}
for e in of('s'):
    check((e['name'], e['id']) not in left, 'two arrows with one id')
    left[e['name'], e['id']] = e['ts']
for e in of('f'):
    check(left.get((e['name'], e['id']), 1e18) <= e['ts'], 'an arrow that never left')
begun = sorted((e['cat'], e['name'], e['id']) for e in of('b'))
check(begun == sorted((e['cat'], e['name'], e['id']) for e in of('e')), 'asynchronous pairs')


def batches(events):
    return {(e['args']['loader'], e['args']['epoch'], e['args']['batch']): e for e in events}


taken, published, opened = batches(of('X', name='next')), batches(of('X', name='batch')), batches(of('X', name='open'))
check(len(taken) == n_batches, '%d batches were taken, not %d' % (len(taken), n_batches))
for key, e in taken.items():
    check(key in opened and key in published, 'batch %s was taken, but not opened or not published' % (key,))
    if key in opened and key in published:
        check(opened[key]['ts'] <= published[key]['ts'] <= e['ts'] + e['dur'], 'order of batch %s' % (key,))
    rows = sum(s['args']['rows'] for s in of('X', cat='stage') if (s['args']['loader'], s['args']['epoch'], s['args']['batch']) == key)
    check(rows == e['args']['rows'], 'batch %s: %d rows made, %d taken' % (key, rows, e['args']['rows']))
check(len(of('C', cat='memory', name='host')) > 0, 'memory')
for fault in faults[:20]:
    print('check_profile: ' + fault)
sys.exit(bool(faults))
