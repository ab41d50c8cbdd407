// A flow's graph or a machine's diagram: boxes by state, and the way that was taken.
import { useMemo } from 'preact/hooks';
import { plain, short } from '../text';
import { HEIGHT, layOut } from './layout';

export interface Box {
  name: string;
  note: string;
  status: string;
  href?: string | undefined;
  isChosen?: boolean;
}

export function Picture({ boxes, edges, taken, label }: { boxes: Box[]; edges: (readonly [string, string])[]; taken: ReadonlySet<string>; label: string }) {
  const text = JSON.stringify([boxes.map((box) => [box.name, box.note]), edges]);
  const layout = useMemo(
    () => layOut(boxes.map((box) => ({ name: box.name, width: Math.max(104, short(box.name, 28).length * 7.6 + 26, box.note.length * 6 + 22) })), edges),
    [text],
  );
  return (
    <div class="graph" tabIndex={0} role="group" aria-label={label}>
      <svg width={layout.width} height={layout.height} viewBox={`0 0 ${layout.width} ${layout.height}`}>
        <defs>
          {['', ' taken'].map((kind) => (
            <marker id={`tip${kind.trim()}`} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">
              <path class={`tip-end${kind}`} d="M0 0 8 4 0 8z" />
            </marker>
          ))}
        </defs>
        {[...layout.ways].sort((a, b) => Number(taken.has(`${a.from}\0${a.to}`)) - Number(taken.has(`${b.from}\0${b.to}`))).map((way) => {
          const isTaken = taken.has(`${way.from}\0${way.to}`);
          return <path class={`edge ${isTaken ? 'taken' : ''}`} d={way.path} marker-end={`url(#tip${isTaken ? 'taken' : ''})`} />;
        })}
        {boxes.map((box) => {
          const node = layout.nodes.get(box.name)!;
          const drawn = (
            <g class={`node is-${box.status} ${box.isChosen ? 'on' : ''}`} data-state={box.status}>
              <rect x={node.x - node.width / 2} y={node.y} width={node.width} height={HEIGHT} rx="9" />
              <text x={node.x} y={node.y + 19}>
                {short(box.name, 28)}
              </text>
              <text class="note" x={node.x} y={node.y + 34}>
                {box.note}
              </text>
            </g>
          );
          return box.href ? (
            <a href={box.href} aria-label={`${plain(box.name)}, ${box.note}`}>
              {drawn}
            </a>
          ) : (
            drawn
          );
        })}
      </svg>
    </div>
  );
}
