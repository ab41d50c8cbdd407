// What people do to a queue or a limit: pause, resume, change its rules, take the change back. Each asks first.
import { useState } from 'preact/hooks';
import { ask } from '../api/client';
import type { Verb } from '../api/types';
import { can } from '../state/me';
import { toast } from '../state/toasts';
import { plain } from '../text';
import { Dialog } from './dialog';

export interface Rule {
  name: string;
  label: string;
  about: string;
  /** The rule as it counts now, as text; nothing: there is none. */
  value: string;
  kind: 'number' | 'text' | 'weights' | 'choice';
  choices?: readonly string[];
}

interface Props {
  kind: 'queue' | 'limit';
  name: string;
  isPaused: boolean;
  isByHand: boolean;
  rules: readonly Rule[];
  about: { pause: string; resume: string };
  /** Whether a rule can be taken away; else what is empty stays as it is. */
  canLift: boolean;
  done: () => void;
}

type Act = 'pause' | 'resume' | 'set' | 'reset';
const LABELS: Record<Act, string> = { pause: 'Pause', resume: 'Resume', set: 'Set', reset: 'Reset' };
const DONE: Record<Act, string> = { pause: 'paused', resume: 'resumed', set: 'set, until it is reset', reset: 'follows the code again' };

export function GateActs(props: Props) {
  const { kind, name, isPaused, isByHand, about } = props;
  const [open, setOpen] = useState<Act | null>(null);
  const [reason, setReason] = useState('');
  const offered = ([isPaused ? 'resume' : 'pause', 'set', ...(isByHand ? (['reset'] as const) : [])] as Act[]).filter((act) => can(act as Verb));
  const close = () => setOpen(null);
  const send = async (act: Act, body: object) => {
    await ask(`${kind}/${act}`, { query: new URLSearchParams({ name }), method: 'POST', body });
    toast(`${name}: ${DONE[act]}`);
    props.done();
  };
  const texts: Record<Act, string> = { ...about, set: '', reset: 'What was set by hand is forgotten. What the code declares counts again, at once and on every worker.' };
  return (
    <div class="acts">
      {offered.map((act) => (
        <button class="btn" onClick={() => setOpen(act)}>
          {LABELS[act]}
        </button>
      ))}
      {open === 'set' && <SetRules {...props} close={close} send={(body) => send('set', body)} />}
      {open && open !== 'set' && (
        <Dialog title={`${LABELS[open]} ${plain(name)}?`} verb={LABELS[open]} close={close} act={() => send(open, open === 'pause' ? { reason } : {})}>
          <p class="soft">{texts[open]}</p>
          {open === 'pause' && (
            <label class="line">
              <span>Reason</span>
              <input class="field" autofocus value={reason} onInput={(event) => setReason(event.currentTarget.value)} placeholder="shown to everyone who looks at it" />
            </label>
          )}
        </Dialog>
      )}
    </div>
  );
}

function SetRules({ name, rules, canLift, close, send }: Props & { close: () => void; send: (body: object) => Promise<void> }) {
  const [texts, setTexts] = useState(() => Object.fromEntries(rules.map((rule) => [rule.name, rule.value])));
  const changed = rules.filter((rule) => texts[rule.name]!.trim() !== rule.value && (canLift || texts[rule.name]!.trim()));
  const act = () => send(Object.fromEntries(changed.map((rule) => [rule.name, valueOf(rule, texts[rule.name]!.trim())])));
  return (
    <Dialog title={`Set ${plain(name)}`} verb="Set" close={close} isDisabled={!changed.length} act={act}>
      <p class="soft">
        It counts at once, on every worker, before what the code declares, until it is reset.{canLift && ' An empty field is no limit.'}
      </p>
      <div class="form two-wide">
        {rules.map((rule) => (
          <label class={`line ${rule.kind === 'weights' ? 'wide' : ''}`}>
            <span>
              {rule.label} <span class="dim small">{rule.about}</span>
            </span>
            <Field rule={rule} text={texts[rule.name]!} change={(text) => setTexts({ ...texts, [rule.name]: text })} />
          </label>
        ))}
      </div>
    </Dialog>
  );
}

function Field({ rule, text, change }: { rule: Rule; text: string; change: (text: string) => void }) {
  if (rule.kind === 'choice')
    return (
      <select class="field" value={text} onChange={(event) => change(event.currentTarget.value)}>
        {rule.choices!.map((one) => (
          <option value={one}>{one}</option>
        ))}
      </select>
    );
  const rest = { class: 'field mono', value: text, onInput: (event: { currentTarget: HTMLInputElement }) => change(event.currentTarget.value) };
  return rule.kind === 'number' ? <input type="number" min={1} {...rest} /> : <input {...rest} />;
}

/** "gold=3 silver=2", as on the command line. */
export const weightsText = (weights: Record<string, number>): string => Object.entries(weights).map(([share, weight]) => `${share}=${weight}`).join(' ');

function valueOf(rule: Rule, text: string): unknown {
  if (rule.kind === 'weights') return weightsOf(text);
  if (text === '') return null;
  return rule.kind === 'number' ? Number(text) : text;
}

export function weightsOf(text: string): Record<string, number> {
  const found: Record<string, number> = {};
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const at = word.lastIndexOf('=');
    const weight = Number(word.slice(at + 1));
    if (at < 1 || !Number.isFinite(weight)) throw new Error(`${word}: write a share and its weight, such as gold=3`);
    found[word.slice(0, at)] = weight;
  }
  return found;
}
