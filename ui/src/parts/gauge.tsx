// How much of what is allowed is taken: a bar with its words beside it.
import { count } from '../time';

export function Gauge({ taken, most, word }: { taken: number; most: number | null; word: string }) {
  const text = most === null ? `${count(taken)} ${word}` : `${count(taken)} of ${count(most)} ${word}`;
  const share = most ? Math.min(1, taken / most) : 0;
  return (
    <div class={`gauge ${most !== null && taken >= most ? 'is-paused' : 'is-running'}`}>
      {most !== null && (
        <div class="bar-of" aria-hidden="true">
          <span style={{ width: `${share * 100}%` }} />
        </div>
      )}
      <span class="small soft num">{text}</span>
    </div>
  );
}
