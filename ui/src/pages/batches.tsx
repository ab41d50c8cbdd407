import { useEffect, useState } from 'preact/hooks';
import { ask } from '../api/client';
import { isOpen, type Batch as BatchData } from '../api/types';
import { Dialog } from '../parts/dialog';
import { Top } from '../parts/frame';
import { Mark, Pill } from '../parts/mark';
import { usePolled } from '../parts/polled';
import { Age, Time, Took } from '../parts/time';
import { hasNothing, Instead, Trouble } from '../parts/trouble';
import { Items } from '../run/items';
import { nav } from '../state/nav';
import { can } from '../state/me';
import { href } from '../state/route';
import { toast } from '../state/toasts';
import { plain } from '../text';
import { count } from '../time';

export function Batches() {
  const { data, problem } = usePolled<{ batches: BatchData[]; next: string }>('batches', 3000);
  useEffect(() => {
    if (data) nav.value = { ...nav.value, batches: `${count(data.batches.length)}${data.next ? '+' : ''}` };
  }, [data]);
  return (
    <>
      <Top title="Batches" />
      <Trouble problem={problem} />
      {data?.batches.length === 0 && (
        <div class="card empty">
          <h2>No batches yet</h2>
          <p>A batch runs one workflow over many inputs, a limited number at the same time.</p>
          <pre tabIndex={0} aria-label="command">holdfast batch MODULE:APP WORKFLOW --inputs inputs.jsonl --out results.jsonl</pre>
        </div>
      )}
      {data && data.batches.length > 0 && (
        <div class="card">
          <table class="plain">
            <thead>
              <tr>
                <th>Batch</th>
                <th>Workflow</th>
                <th>Progress</th>
                <th class="right">Failed</th>
                <th class="right">Age</th>
              </tr>
            </thead>
            <tbody>
              {data.batches.map((batch) => (
                <tr>
                  <td>
                    <span class="crumb">
                      <Mark status={batch.status} />
                      <a class="id text" href={href('batch', { id: batch.id })}>
                        {plain(batch.id)}
                      </a>
                    </span>
                  </td>
                  <td class="text">{plain(batch.workflow)}</td>
                  <td>
                    <Progress batch={batch} />
                  </td>
                  <td class="num right">{batch.counts.failed ? <span class="error-text">{count(batch.counts.failed)}</span> : '0'}</td>
                  <td class="num right soft">
                    <Age at={batch.created_at} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

const VERBS: Record<string, [string, string]> = {
  pause: ['Pause', 'It starts no further item until you resume it.'],
  resume: ['Resume', 'It starts items again.'],
  cancel: ['Cancel', 'Open items are asked to stop, and no further one starts.'],
  retry: ['Retry', 'What did not complete runs again, as a new batch. What completed stays.'],
};

function Progress({ batch }: { batch: BatchData }) {
  const { counts } = batch;
  const share = (value: number) => ({ width: `${(100 * value) / Math.max(1, counts.total)}%` });
  return (
    <>
      <div class="bar-of" role="img" aria-label={`${counts.completed} of ${counts.total} completed, ${counts.failed} failed`}>
        <span class="is-completed" style={share(counts.completed)} />
        <span class="is-failed" style={share(counts.failed)} />
        <span class="is-cancelled" style={share(counts.cancelled)} />
        <span class="is-running" style={share(counts.running)} />
      </div>
      <span class="small dim num">
        {count(counts.completed)} of {count(counts.total)}
      </span>
    </>
  );
}

export function Batch({ id }: { id: string }) {
  const { data, problem } = usePolled<BatchData>('batch', 2000, new URLSearchParams({ id }).toString());
  const [verb, setVerb] = useState('');
  const [reason, setReason] = useState('');
  if (hasNothing(data, problem)) return <Instead problem={problem} />;
  const offered = (['pause', 'resume', 'cancel', 'retry'] as const).filter((one) => can(one) && (one === 'retry' ? !isOpen(data) && data.counts.failed + data.counts.cancelled > 0 : one === 'resume' ? data.status === 'paused' : isOpen(data)));
  return (
    <>
      <Top title={plain(id)} of="batches">
        <Pill status={data.status} />
        {offered.map((one) => (
          <button class="btn" onClick={() => setVerb(one)}>
            {VERBS[one]![0]}
          </button>
        ))}
        <a class="btn" href={href('run', { id })}>
          Its own run
        </a>
      </Top>
      <p class="facts">
        <span>
          workflow{' '}
          <a href={href('workflow', { name: data.workflow })}>
            <b class="text">{plain(data.workflow)}</b>
          </a>
        </span>
        <span>
          at once <b>{count(data.concurrency)}</b>
        </span>
        <span>
          started{' '}
          <b>
            <Time at={data.created_at} />
          </b>
        </span>
        <span>
          {data.ended_at ? 'took' : 'running for'}{' '}
          <b>
            <Took from={data.created_at} to={data.ended_at} />
          </b>
        </span>
      </p>
      <div class="card">
        <Items batch={id} turns={0} />
      </div>
      {verb && (
        <Dialog
          title={`${VERBS[verb]![0]} the batch ${plain(id)}?`}
          verb={VERBS[verb]![0]}
          close={() => setVerb('')}
          act={async () => {
            await ask(`batch/${verb}`, { query: new URLSearchParams({ id }), method: 'POST', body: verb === 'retry' || verb === 'resume' ? {} : { reason } });
            toast(`${VERBS[verb]![0]}: asked for`);
          }}
        >
          <p class="soft">{VERBS[verb]![1]}</p>
          {(verb === 'pause' || verb === 'cancel') && (
            <label class="line">
              <span>Reason</span>
              <input class="field" value={reason} onInput={(event) => setReason(event.currentTarget.value)} placeholder="kept in the journal of the batch" />
            </label>
          )}
        </Dialog>
      )}
    </>
  );
}
