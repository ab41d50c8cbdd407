import type { Run } from '../api/types';
import { DoingText, ErrorLine } from '../parts/doing';
import { Mark } from '../parts/mark';
import { Age, Took } from '../parts/time';
import { href } from '../state/route';
import { plain } from '../text';

interface Props {
  run: Run;
  index: number;
  top: number;
  isActive: boolean;
  isPicked: boolean;
  isFresh: boolean;
  canPick: boolean;
  pick: (id: string, isRange: boolean) => void;
}

export function Row({ run, index, top, isActive, isPicked, isFresh, canPick, pick }: Props) {
  const id = plain(run.id);
  return (
    <div role="row" aria-rowindex={index + 2} aria-selected={canPick ? isPicked : undefined} class={`row ${isActive ? 'active' : ''} ${isFresh ? 'fresh' : ''}`} style={{ transform: `translateY(${top}px)` }} data-run={run.id}>
      <span role="cell" class="pick">
        {canPick && <input type="checkbox" checked={isPicked} aria-label={`select ${id}`} onClick={(event) => pick(run.id, event.shiftKey)} />}
      </span>
      <span role="cell" class="run">
        <Mark status={run.status} />
        <span class="unseen">{run.status}</span>
        <a class="id clip text" href={href('run', { id: run.id })} title={id}>
          {id}
        </a>
      </span>
      <span role="cell" class="flow clip" title={plain(run.workflow)}>
        {plain(run.workflow)} {run.version && <span class="dim small">v{plain(run.version)}</span>}
      </span>
      <span role="cell" class="doing">
        <DoingText run={run} />
        <ErrorLine run={run} />
      </span>
      <span role="cell" class="num soft hide">
        <Age at={run.created_at} />
      </span>
      <span role="cell" class="num soft hide">
        {run.ended_at ? <Took from={run.started_at ?? run.created_at} to={run.ended_at} /> : ''}
      </span>
      <span role="cell" class="dim small clip hide">
        {((run.is_held || run.ended_at) && plain(run.worker)) || '–'}
      </span>
    </div>
  );
}
