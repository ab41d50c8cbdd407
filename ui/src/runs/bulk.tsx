// One verb for many runs: first how many there are, then a question, then progress.
import { useEffect, useState } from 'preact/hooks';
import { ask, call, Problem } from '../api/client';
import { Parser } from '../api/sse';
import type { Run } from '../api/types';
import { Dialog } from '../parts/dialog';
import { Mark } from '../parts/mark';
import { toast } from '../state/toasts';
import { plain } from '../text';
import { count } from '../time';

export type BulkVerb = 'cancel' | 'retry' | 'pause' | 'resume';

interface Progress {
  done: number;
  total: number;
  failed?: number;
  problems?: { run: string; error: string; detail: string }[];
}

interface Props {
  verb: BulkVerb;
  which: { ids: string[] } | { filter: Record<string, unknown> };
  close: () => void;
  done: () => void;
}

export function Bulk({ verb, which, close, done }: Props) {
  const [matched, setMatched] = useState<{ matched: number; is_capped: boolean; sample: Run[] } | null>(null);
  const [progress, setProgress] = useState<Progress | null>(null);
  const [problem, setProblem] = useState('');
  const [reason, setReason] = useState('');
  const what = { verb, ids: null, filter: null, ...which };
  useEffect(() => {
    ask<typeof matched>('runs/bulk', { method: 'POST', body: { ...what, dry_run: true } }).then(setMatched, (error: Error) => setProblem(error.message));
  }, []);
  const act = async () => {
    const response = await call('runs/bulk', { method: 'POST', body: { ...what, reason, dry_run: false, expect: matched!.matched } });
    const last = await read(response, setProgress);
    done();
    if (last.problems?.length) return false;
    toast(`${verb}: ${count(last.done)} runs`);
    return true;
  };
  const isOver = progress?.problems !== undefined;
  return (
    <Dialog title={`${verb[0]!.toUpperCase()}${verb.slice(1)} ${matched ? count(matched.matched) : '…'} runs`} close={close} act={isOver || problem ? undefined : act} verb={`${verb[0]!.toUpperCase()}${verb.slice(1)} ${matched ? count(matched.matched) : ''}`} isDangerous={verb === 'cancel'} isDisabled={!matched?.matched}>
      {problem && (
        <p class="notice is-failed" role="alert">
          <Mark status="failed" />
          {problem}
        </p>
      )}
      {matched && !progress && (
        <>
          <p class="soft">
            {matched.matched === 0
              ? `None of these can take a ${verb}.`
              : `${count(matched.matched)}${matched.is_capped ? ' (the most at once)' : ''} runs take a ${verb}, among them:`}
          </p>
          <ul class="tree small">
            {matched.sample.slice(0, 6).map((run) => (
              <li>
                <div>
                  <Mark status={run.status} />
                  <span class="id text">{plain(run.id)}</span>
                  <span class="dim">{plain(run.workflow)}</span>
                </div>
              </li>
            ))}
          </ul>
          {verb !== 'retry' && verb !== 'resume' && (
            <label class="line">
              <span>Reason</span>
              <input class="field" value={reason} onInput={(event) => setReason(event.currentTarget.value)} placeholder="kept in the journal of each run" />
            </label>
          )}
        </>
      )}
      {progress && (
        <div role="status">
          <div class="bar-of">
            <span style={{ width: `${(100 * progress.done) / Math.max(1, progress.total)}%` }} />
          </div>
          <p class="soft small">
            {count(progress.done)} of {count(progress.total)}
          </p>
        </div>
      )}
      {progress?.problems && progress.problems.length > 0 && (
        <>
          <p>{count(progress.problems.length)} could not be done:</p>
          <ul class="small">
            {progress.problems.slice(0, 20).map((one) => (
              <li>
                <span class="id text">{plain(one.run)}</span>: <span class="text">{plain(one.detail)}</span>
              </li>
            ))}
          </ul>
        </>
      )}
    </Dialog>
  );
}

async function read(response: Response, told: (progress: Progress) => void): Promise<Progress> {
  const parser = new Parser();
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Problem(0, 'The answer ended early', 'The server ended before it said how it went; load the list again to see.');
    for (const message of parser.take(value)) {
      const progress = JSON.parse(message.data) as Progress;
      told(progress);
      if (message.event === 'end') return progress;
    }
  }
}
