// One fact of a journal on one line. The whole of it is a click away.
import type { JournalEvent } from '../api/types';

type Data = Record<string, unknown>;

const text = (data: Data, name: string): string => (typeof data[name] === 'string' ? data[name] : typeof data[name] === 'number' ? String(data[name]) : '');
const failure = (data: Data): string => {
  const found = data['failure'] as { type?: string; message?: string } | undefined;
  return found ? `${found.type ?? ''}: ${found.message ?? ''}` : '';
};
const list = (data: Data, name: string): string => ((data[name] as string[] | undefined) ?? []).join(', ');

/** [what happened, to what, more]. */
export function factOf(event: JournalEvent): [string, string, string] {
  const { type, data } = event;
  const key = text(data, 'key');
  switch (type) {
    case 'started':
      return ['started', text(data, 'workflow'), text(data, 'version') && `v${text(data, 'version')}`];
    case 'claimed':
      return [list(data, 'restarted') ? 'taken over' : 'claimed', text(data, 'worker'), list(data, 'restarted') && `begins again: ${list(data, 'restarted')}`];
    case 'released':
      return ['released', text(data, 'worker'), ''];
    case 'step':
      return ['step asked for', key, text(data, 'undoes') && `undoes ${text(data, 'undoes')}`];
    case 'done':
      return ['step completed', key, ''];
    case 'attempt_failed':
      return [`attempt ${text(data, 'attempt')} failed`, key, failure(data)];
    case 'attempt':
      return [`attempt ${text(data, 'attempt')}`, key, ''];
    case 'step_failed':
      return ['step failed', key, failure(data)];
    case 'abandoned':
      return ['step abandoned', key, ''];
    case 'fired':
      return ['timer fired', key, ''];
    case 'sleep':
      return ['sleeps', key, ''];
    case 'wait':
      return [`waits for ${text(data, 'kind') || 'signal'}`, text(data, 'name'), ''];
    case 'wait_ended':
      return ['wait ended', key, ''];
    case 'signal':
      return ['signal received', text(data, 'name'), text(data, 'sender') && `from ${text(data, 'sender')}`];
    case 'update':
      return ['question received', text(data, 'name'), text(data, 'sender') && `from ${text(data, 'sender')}`];
    case 'answered':
      return [`question ${text(data, 'outcome')}`, '', JSON.stringify(data['value'])?.slice(0, 120) ?? ''];
    case 'attributes':
      return ['attributes set', '', JSON.stringify(data['attributes'])?.slice(0, 120) ?? ''];
    case 'streamed':
      return ['streamed', text(data, 'name'), `${text(data, 'parts')} parts`];
    case 'topic':
      return ['topic received', text(data, 'name'), ''];
    case 'child':
      return ['child started', text(data, 'workflow'), text(data, 'run')];
    case 'child_ended':
      return [`child ${text(data, 'status')}`, key, text(data, 'run')];
    case 'sent':
      return [`${text(data, 'kind')} sent`, text(data, 'name'), text(data, 'to') && `to ${text(data, 'to')}`];
    case 'cancel':
      return ['cancel asked for', text(data, 'actor'), text(data, 'reason')];
    case 'paused':
      return ['paused', text(data, 'reason'), text(data, 'detail')];
    case 'resumed':
      return ['resumed', text(data, 'actor'), ''];
    case 'exposed':
      return ['shows', text(data, 'name'), JSON.stringify(data['value'])?.slice(0, 120) ?? ''];
    case 'entered':
      return ['enters', text(data, 'state'), ''];
    case 'patched':
      return ['patched', text(data, 'name'), ''];
    case 'failed':
      return ['failed', '', failure(data)];
    case 'cancelled':
      return ['cancelled', text(data, 'actor'), text(data, 'reason')];
    case 'retry':
      return ['a new pass is planned', '', failure(data)];
    case 'pass':
      return [`pass ${text(data, 'number')}`, '', ''];
    case 'dropped':
      return [`message ${text(data, 'number')} dropped`, text(data, 'actor'), text(data, 'reason')];
    case 'limited': {
      const waiting = (data['waiting'] ?? {}) as Record<string, string>;
      const keys = Object.keys(waiting);
      if (keys.length) return ['waits for a place', keys.join(', '), `of ${[...new Set(Object.values(waiting))].join(', ')}`];
      return ['has its place', list(data, 'begun'), ''];
    }
    case 'held_back':
      return ['held back', key, `by limit ${text(data, 'limit')}`];
    case 'input':
      return ['input joined', text(data, 'into'), ''];
    case 'predecessor':
      return ['the run before it ended', '', text(data, 'run')];
    case 'deadline':
      return ['deadline reached', '', ''];
    case 'adopted':
      return ['takes over what was done', '', `${((data['facts'] as unknown[] | undefined) ?? []).length} facts`];
    case 'continued':
      return ['continues anew as', text(data, 'workflow'), text(data, 'version') && `v${text(data, 'version')}`];
    case 'redacted':
      return ['redacted', list(data, 'paths'), text(data, 'actor') && `by ${text(data, 'actor')}`];
    case 'compacted':
      return ['compacted', '', `${text(data, 'rows')} rows`];
    case 'kept':
      return ['kept for the next pass', list(data, 'keys'), ''];
    case 'settled':
      return [`message ${text(data, 'status')}`, text(data, 'name') || key, text(data, 'to') && `to ${text(data, 'to')}`];
    default:
      return [type.replace(/_/g, ' '), key || text(data, 'name'), ''];
  }
}

const BAD = new Set(['attempt_failed', 'step_failed', 'failed']);
const GOOD = new Set(['completed', 'done']);
export const toneOf = (type: string): string => (BAD.has(type) ? 'is-bad' : GOOD.has(type) ? 'is-good' : '');
export const keyOf = (event: JournalEvent): string => text(event.data, 'key');
