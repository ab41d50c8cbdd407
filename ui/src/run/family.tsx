// The children of a run as a tree, opened as far as the reader wants.
import { useEffect, useState } from 'preact/hooks';
import { ask, ofRun } from '../api/client';
import type { Run, RunList } from '../api/types';
import { DoingText, ErrorLine } from '../parts/doing';
import { Mark } from '../parts/mark';
import { href } from '../state/route';
import { toastError } from '../state/toasts';
import { plain } from '../text';

export function Family({ run, children, next }: { run: Run; children: Run[]; next: string }) {
  return (
    <ul class="tree">
      {run.parent && (
        <li>
          <div>
            <span class="dim">started by</span>
            <a class="id text" href={href('run', { id: run.parent })}>
              {plain(run.parent)}
            </a>
          </div>
        </li>
      )}
      {children.length === 0 && !run.parent && (
        <li>
          <div class="dim">It has started no other run.</div>
        </li>
      )}
      {children.map((child) => (
        <Child key={child.id} run={child} />
      ))}
      {next && (
        <li>
          <div>
            <a class="btn" href={href('', { parent: run.id })}>
              All children as a list
            </a>
          </div>
        </li>
      )}
    </ul>
  );
}

function Child({ run }: { run: Run }) {
  const [isOpen, setOpen] = useState(false);
  const [children, setChildren] = useState<Run[] | null>(null);
  useEffect(() => {
    if (!isOpen) return;
    const [path, query] = ofRun(run.id, 'children', { limit: '100' });
    ask<RunList>(path, { query }).then((found) => setChildren(found.runs), toastError);
  }, [isOpen, run.updated_at]);
  return (
    <li>
      <div>
        <button class="btn bare" aria-expanded={isOpen} aria-label={`children of ${plain(run.id)}`} onClick={() => setOpen(!isOpen)}>
          {isOpen ? '▾' : '▸'}
        </button>
        <Mark status={run.status} />
        <a class="id text" href={href('run', { id: run.id })}>
          {plain(run.id)}
        </a>
        <span class="dim small">{plain(run.workflow)}</span>
        <DoingText run={run} />
        <ErrorLine run={run} />
      </div>
      {isOpen && children && (
        <ul>
          {children.length ? children.map((child) => <Child key={child.id} run={child} />) : <li class="dim small">no children</li>}
        </ul>
      )}
    </li>
  );
}
