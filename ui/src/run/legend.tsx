// What the shapes of the timeline mean: only those that are in it.
import type { Chart, Look } from './layout';

const SHAPES: readonly [Look, string, string][] = [
  ['completed', 'completed', 'var(--bar-completed)'],
  ['open', 'running', 'var(--bar-running)'],
  ['failed', 'failed', 'var(--bar-failed)'],
  ['cut', 'cut off by a crash', 'url(#cut-key)'],
  ['child', 'child run', 'var(--bar-running)'],
  ['pause', 'paused', 'var(--bar-paused)'],
];

export function Legend({ chart }: { chart: Chart }) {
  const looks = new Set(chart.rows.flatMap((row) => row.bars.map((bar) => bar.look)));
  const hasWaits = looks.has('wait') || looks.has('retry');
  return (
    <div class="legend">
      {SHAPES.filter(([look]) => looks.has(look)).map(([look, label, fill]) => (
        <span>
          <svg width="14" height="10" aria-hidden="true">
            {look === 'cut' && (
              <defs>
                <pattern id="cut-key" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
                  <rect width="3.2" height="7" fill="var(--bar-paused)" />
                </pattern>
              </defs>
            )}
            <rect width="14" height="10" rx="3" fill={fill} />
          </svg>
          {label}
        </span>
      ))}
      {hasWaits && (
        <span>
          <svg width="18" height="10" aria-hidden="true">
            <path d="M1 5h16" stroke="var(--ink-3)" stroke-width="2" stroke-dasharray="1 5" stroke-linecap="round" />
          </svg>
          waiting, costs nothing
        </span>
      )}
    </div>
  );
}
