import { useEffect } from 'preact/hooks';
import type { Queue } from '../api/types';
import { Top } from '../parts/frame';
import { Mark } from '../parts/mark';
import { Age } from '../parts/time';
import { usePolled } from '../parts/polled';
import { nav } from '../state/nav';
import { href } from '../state/route';
import { plain } from '../text';
import { count } from '../time';

export function Queues() {
  const { data, problem } = usePolled<{ queues: Queue[] }>('queues', 2000);
  useEffect(() => {
    if (data) nav.value = { ...nav.value, queues: count(data.queues.length) };
  }, [data]);
  return (
    <>
      <Top title="Queues" />
      {problem && (
        <p class="notice is-failed" role="alert">
          <Mark status="failed" />
          {problem.message}
        </p>
      )}
      {data?.queues.length === 0 && (
        <div class="card empty">
          <h2>No queue has a run or a worker</h2>
          <p>A queue is there as soon as a run names it.</p>
          <pre tabIndex={0} aria-label="command">holdfast worker MODULE:APP --queue default</pre>
        </div>
      )}
      {data && data.queues.length > 0 && (
        <div class="card">
          <table class="plain">
            <thead>
              <tr>
                <th>Queue</th>
                <th class="right">Waiting</th>
                <th>Oldest</th>
                <th class="right">Running</th>
                <th class="right">Paused</th>
                <th>Workers</th>
              </tr>
            </thead>
            <tbody>
              {data.queues.map((queue) => (
                <Line queue={queue} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

function Line({ queue }: { queue: Queue }) {
  const figure = (name: 'waiting' | 'running' | 'paused', status: string) => (
    <a href={href('', { queue: queue.name, status })}>
      {count(queue[name])}
      {queue.capped.includes(name) ? '+' : ''}
    </a>
  );
  return (
    <tr>
      <td class="id text">{plain(queue.name)}</td>
      <td class="num right">{figure('waiting', 'pending')}</td>
      <td>
        {queue.oldest && (
          <a class="id text" href={href('run', { id: queue.oldest })}>
            {plain(queue.oldest)}
          </a>
        )}{' '}
        {queue.since && (
          <span class="dim">
            waits <Age at={queue.since} />
          </span>
        )}
      </td>
      <td class="num right">{figure('running', 'running')}</td>
      <td class="num right">{figure('paused', 'paused')}</td>
      <td>
        {queue.workers.length ? (
          <span class="mono text">{queue.workers.map(plain).join(', ')}</span>
        ) : (
          <span class="error-text">
            no worker serves it: <span class="mono">holdfast worker MODULE:APP --queue {plain(queue.name)}</span>
          </span>
        )}
        {queue.unserved.map((one) => (
          <div class="error-text">
            {count(one.count)} of {plain(one.workflow)} {one.version && `v${plain(one.version)}`} wait for a worker that has this version
          </div>
        ))}
      </td>
    </tr>
  );
}
