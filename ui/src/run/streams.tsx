// What a run streams, as it comes. One stream is followed at a time: a browser has few connections.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Problem } from '../api/client';
import { follow } from '../api/sse';
import type { Story, StreamPart } from '../api/types';
import { Mark } from '../parts/mark';
import { hrefWith, parameter } from '../state/route';
import { plain } from '../text';
import { count } from '../time';
import { blocksOf, endsOf, type Block } from './parts';

/** Parts that are read when a stream is opened, and kept while it is. */
const KEPT = 2000;

export function Streams({ story }: { story: Story }) {
  const names = Object.keys(story.streams);
  const asked = parameter('stream');
  const chosen = names.includes(asked) ? asked : names[0];
  if (chosen === undefined) return null;
  return (
    <section class="card streams" aria-label="streams">
      <h2>Streams</h2>
      {names.length > 1 && (
        <div class="chips">
          {names.map((name) => (
            <a class={`chip ${name === chosen ? 'on' : ''}`} href={hrefWith({ stream: name })} data-replace aria-current={name === chosen}>
              {plain(name)} <span class="num">{count(story.streams[name]!)}</span>
            </a>
          ))}
        </div>
      )}
      <Parts key={chosen} story={story} name={chosen} end={story.streams[chosen]!} />
    </section>
  );
}

function Parts({ story, name, end }: { story: Story; name: string; end: number }) {
  const [isWhole, setWhole] = useState(end <= KEPT);
  const from = useMemo(() => (isWhole ? '' : String(Math.max(0, end - KEPT) - 1)), [isWhole]);
  const { parts, state, trouble } = useParts(story.run.id, name, from, isWhole);
  const blocks = blocksOf(parts, endsOf(story.timeline));
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    if (box.current && isAtEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [parts]);
  const first = parts[0]?.offset ?? 0;
  return (
    <>
      <div class="stream-head small dim">
        <span class="mono text">{plain(name)}</span>
        <span class="num">{count(parts.length)} parts</span>
        {first > 0 && (
          <span>
            from part {count(first)} on{' '}
            {!isWhole && (
              <button class="btn bare" onClick={() => setWhole(true)}>
                Show all
              </button>
            )}
          </span>
        )}
        <span role="status">{state}</span>
      </div>
      {trouble && (
        <p class="notice is-failed" role="alert">
          <Mark status="failed" />
          <span class="text">{plain(trouble)}</span>
        </p>
      )}
      <div
        class="parts-log"
        ref={box}
        tabIndex={0}
        role="log"
        aria-label={`stream ${plain(name)}`}
        onScroll={({ currentTarget: it }) => (isAtEnd.current = it.scrollHeight - it.scrollTop - it.clientHeight < 24)}
      >
        {blocks.map((block) => (
          <Said key={`${block.first} ${block.state}`} block={block} />
        ))}
      </div>
    </>
  );
}

const STATES = { open: 'running', completed: '', superseded: 'superseded: this attempt failed or was cut off' } as const;

function Said({ block }: { block: Block }) {
  const who = block.step || 'the workflow';
  return (
    <div class={`said is-${block.state}`} data-state={block.state}>
      <div class="small dim">
        {block.step ? (
          <a class="mono text" href={hrefWith({ step: block.step })}>
            {plain(block.step)}
          </a>
        ) : (
          who
        )}
        {block.attempt > 1 && `, attempt ${block.attempt}`} {STATES[block.state] && <em>{STATES[block.state]}</em>}
      </div>
      <pre class="text">{block.state === 'superseded' ? <s>{plain(block.text)}</s> : plain(block.text)}</pre>
    </div>
  );
}

function useParts(run: string, name: string, from: string, isWhole: boolean): { parts: readonly StreamPart[]; state: string; trouble: string } {
  const [parts, setParts] = useState<readonly StreamPart[]>([]);
  const [state, setState] = useState('connecting…');
  const [trouble, setTrouble] = useState('');
  useEffect(() => {
    let kept: StreamPart[] = [];
    let timer = 0;
    setParts([]);
    const show = () => {
      timer = 0;
      setParts([...kept]);
    };
    const stream = follow(
      'run/streams',
      new URLSearchParams({ id: run, name }),
      {
        opened: () => setState('live'),
        lost: (problem: Problem) => {
          setState('not connected, trying again');
          if ([401, 403, 404, 409, 410, 422].includes(problem.status)) setTrouble(problem.message);
        },
        message: ({ event, data }) => {
          if (event === 'part') {
            const part = JSON.parse(data) as StreamPart;
            if (part.offset <= (kept.at(-1)?.offset ?? -1)) return;
            kept.push(part);
            if (!isWhole && kept.length > KEPT * 1.5) kept = kept.slice(-KEPT);
            timer ||= window.setTimeout(show, 50);
          } else if (event === 'end') {
            stream.close();
            setState('ended');
          }
        },
      },
      from,
    );
    return () => {
      stream.close();
      window.clearTimeout(timer);
    };
  }, [run, name, from]);
  return { parts, state, trouble };
}
