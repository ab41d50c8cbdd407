// What the API refused: above what is shown, or instead of it.
import type { Problem } from '../api/client';
import { plain } from '../text';
import { Mark } from './mark';

export function Trouble({ problem }: { problem: Problem | null }) {
  return problem ? (
    <p class="notice is-failed" role="alert">
      <Mark status="failed" />
      <span class="text">{plain(problem.message)}</span>
    </p>
  ) : null;
}

/** Whether there is nothing to show but the problem. A server that is away for a moment takes nothing from the screen: the
 * frame says that it is. */
export const hasNothing = <T,>(data: T | null, problem: Problem | null): data is null => !data || (problem !== null && !problem.isAway);

/** Instead of a page that has nothing else to show. */
export function Instead({ problem }: { problem: Problem | null }) {
  return problem ? (
    <div class="card empty">
      <h2>{problem.title}</h2>
      <p class="text">{plain(problem.detail)}</p>
    </div>
  ) : null;
}
