// What a run does, with the time that is left ticking.
import type { Run } from '../api/types';
import { isOpen } from '../api/types';
import { now } from '../state/clock';
import { brief, plain } from '../text';
import { sentence } from '../words';

export function doingText(run: Run, at: number): string {
  if (run.damage.length) return `damaged: ${run.damage.join('; ')}`;
  if (isOpen(run)) {
    const text = sentence(run.doing, at);
    return run.note && text ? `${text} (${run.note})` : text || run.note;
  }
  return `${run.status}${run.note ? ` (${run.note})` : ''}`;
}

export function DoingText({ run }: { run: Run }) {
  const text = doingText(run, isOpen(run) ? now.value : 0);
  return (
    <span class={`text clip ${isOpen(run) || run.error ? '' : 'dim'}`} title={plain(text)}>
      {plain(text)}
    </span>
  );
}

/** The first line of what it ended with, or what it is waiting to retry after. */
export function ErrorLine({ run }: { run: Run }) {
  if (!run.error || run.status === 'completed') return null;
  return (
    <span class={`${run.status === 'cancelled' ? 'small soft' : 'error-text'} text clip`} title={plain(run.error)}>
      {plain(brief(run.error))}
    </span>
  );
}
