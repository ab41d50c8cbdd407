// A payload as text: never as markup, and no more of it at once than a screen can hold.
import { useEffect, useState } from 'preact/hooks';
import { call, ofRun } from '../api/client';
import type { Failure } from '../api/types';
import { json, plain, size } from '../text';
import { toastError } from '../state/toasts';

const SHOWN = 6000;
const COLOURED = 12_000;
const INDENTED = 500_000;
const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|-?\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b/g;

interface Large {
  $large: true;
  size: number;
}

const isLarge = (value: unknown): value is Large => typeof value === 'object' && value !== null && (value as Large).$large === true;

/** Where a value that is too large for an answer is fetched: a value of the run by name, or a payload of its journal. */
export type Source = { of: string } | { blob: string };

function coloured(text: string) {
  if (text.length > COLOURED) return text;
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(TOKEN)) {
    parts.push(text.slice(at, found.index));
    const kind = found[1] ? (found[2] ? 'k' : 's') : 'n';
    parts.push(<span class={kind}>{found[1] ?? found[0]}</span>, found[2] ?? '');
    at = found.index + found[0].length;
  }
  parts.push(text.slice(at));
  return parts;
}

/** A text of any length: its beginning, and the rest on request. */
function Lengthy({ text, label, colour }: { text: string; label: string; colour?: boolean }) {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole || text.length <= SHOWN ? text : text.slice(0, SHOWN);
  return (
    <>
      <pre class="value" tabIndex={0} aria-label={label}>
        {colour ? coloured(shown) : shown}
        {shown.length < text.length ? '…' : ''}
      </pre>
      <div class="small dim">
        {shown.length < text.length && (
          <button class="btn bare" onClick={() => setWhole(true)}>
            Show all {size(text.length)}
          </button>
        )}
        <button class="btn bare" onClick={() => void navigator.clipboard.writeText(text).catch(toastError)}>
          Copy
        </button>
      </div>
    </>
  );
}

export function Value({ value, run, label, source }: { value: unknown; run: string; label: string; source?: Source | undefined }) {
  const [fetched, setFetched] = useState<string | null>(null);
  useEffect(() => setFetched(null), [JSON.stringify(source)]);
  if (isLarge(value) && fetched === null) {
    const load = async () => {
      const [path, query] = source && 'blob' in source ? ofRun(run, 'blob', { name: source.blob }) : ofRun(run, 'value', { of: source?.of ?? 'input' });
      const text = await (await call(path, { query })).text();
      setFetched(text.length < INDENTED ? json(JSON.parse(text)) : plain(text));
    };
    return (
      <div class="small">
        <button class="btn" disabled={!source} onClick={() => void load().catch(toastError)}>
          Load {value.size ? size(value.size) : 'the payload'}
        </button>
      </div>
    );
  }
  return <Lengthy text={fetched ?? json(value)} label={label} colour />;
}

export function FailureText({ failure }: { failure: Failure }) {
  const text = failure.traceback ? plain(failure.traceback.trimEnd()) : `${plain(failure.type)}: ${plain(failure.message)}`;
  return <Lengthy text={text} label="error" />;
}
