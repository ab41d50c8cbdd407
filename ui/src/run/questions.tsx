// What the run was asked, and what it answered: from its journal, as far as that is loaded.
import { useState } from 'preact/hooks';
import { ask, ofRun } from '../api/client';
import type { JournalEvent, Run } from '../api/types';
import { Json } from '../form/fields';
import { Dialog } from '../parts/dialog';
import { Pill } from '../parts/mark';
import { Time } from '../parts/time';
import { json, plain } from '../text';
import { Value } from '../parts/value';

interface Question {
  message: string;
  name: string;
  sender: string;
  at: string;
  asked: unknown;
  blob: string;
  answer?: { outcome: string; at: string; value: unknown; blob: string };
}

export function questionsOf(events: readonly JournalEvent[]): Question[] {
  const found = new Map<string, Question>();
  for (const { type, data, at } of events) {
    const message = String(data['message'] ?? '');
    if (type === 'update') found.set(message, { message, name: String(data['name'] ?? ''), sender: String(data['sender'] ?? ''), at, asked: data['value'], blob: String(data['blob'] ?? '') });
    const known = found.get(message);
    if (!known) continue;
    if (type === 'answered') known.answer = { outcome: String(data['outcome'] ?? ''), at, value: data['value'], blob: String(data['blob'] ?? '') };
    if (type === 'dropped') known.answer = { outcome: 'dropped', at, value: data['reason'] ?? null, blob: '' };
  }
  return [...found.values()];
}

const STATUS: Record<string, 'completed' | 'failed' | 'cancelled'> = { answered: 'completed', refused: 'failed' };

export function Questions({ run, events }: { run: Run; events: readonly JournalEvent[] }) {
  const questions = questionsOf(events);
  if (!questions.length) return null;
  return (
    <section class="card pad wide questions" aria-label="questions">
      <h2>Questions</h2>
      <ol>
        {questions.map((one) => (
          <li key={one.message}>
            <div>
              <b class="mono text">{plain(one.name)}</b>{' '}
              <span class="small dim">
                {one.sender && `by ${plain(one.sender)}, `}
                <Time at={one.at} />
              </span>{' '}
              <Pill status={one.answer ? (STATUS[one.answer.outcome] ?? 'cancelled') : 'running'}>{one.answer ? one.answer.outcome : 'open'}</Pill>
            </div>
            <Payload run={run.id} value={one.asked} blob={one.blob} label={`question ${plain(one.name)}`} />
            {one.answer && <Payload run={run.id} value={one.answer.value} blob={one.answer.blob} label={`answer ${plain(one.name)}`} />}
          </li>
        ))}
      </ol>
    </section>
  );
}

const Payload = ({ run, value, blob, label }: { run: string; value: unknown; blob: string; label: string }) => (
  <Value value={blob ? { $large: true, size: 0 } : value} run={run} label={label} source={blob ? { blob } : undefined} />
);

/** Asks the run, and shows what it says. The same id asks once, so a lost answer can be asked for again. */
export function AskRun({ run, waits, close, done }: { run: Run; waits: string[]; close: () => void; done: () => void }) {
  const [name, setName] = useState(waits[0] ?? '');
  const [value, setValue] = useState<unknown>(null);
  const [id] = useState(() => crypto.randomUUID());
  const [answer, setAnswer] = useState<string | null>(null);
  const act = async () => {
    const [path, query] = ofRun(run.id, 'update');
    const said = await ask<{ answer: unknown }>(path, { query, method: 'POST', body: { name, value, id } });
    setAnswer(json(said.answer));
    done();
    return false;
  };
  return (
    <Dialog title={`Ask ${plain(run.id)}`} verb="Ask" close={close} isDisabled={!name} act={answer === null ? act : undefined}>
      <label class="line">
        <span>
          Update <span class="dim small">the name of the question</span>
        </span>
        <input class="field mono" autofocus value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <label class="line">
        <span>Value, as JSON</span>
        <Json value={value} change={setValue} label="value" />
      </label>
      {answer !== null && (
        <div role="status">
          It answered
          <pre class="value" tabIndex={0} aria-label="answer">
            {answer}
          </pre>
        </div>
      )}
    </Dialog>
  );
}
