// What can be done to a run. Everything asks first, and says what will happen.
import { useState } from 'preact/hooks';
import { ask, ofRun } from '../api/client';
import { isOpen, type Run, type Verb } from '../api/types';
import { Json } from '../form/fields';
import { Dialog } from '../parts/dialog';
import { can } from '../state/me';
import { go, href } from '../state/route';
import { toast } from '../state/toasts';
import { plain } from '../text';
import { AskRun } from './questions';

interface Act {
  verb: Verb;
  label: string;
  about: string;
  isDangerous?: boolean;
  takesReason?: boolean;
  fits: (run: Run) => boolean;
}

const ACTS: readonly Act[] = [
  { verb: 'pause', label: 'Pause', about: 'It finishes what it is doing now, then waits until you resume it.', takesReason: true, fits: (run) => run.status === 'running' || run.status === 'pending' },
  { verb: 'resume', label: 'Resume', about: 'It continues where it stopped.', fits: (run) => run.status === 'paused' },
  { verb: 'cancel', label: 'Cancel', about: 'It is asked to stop: its code cleans up and undoes what it has to, then it ends as cancelled.', isDangerous: true, takesReason: true, fits: isOpen },
  { verb: 'retry', label: 'Retry', about: 'A new run takes over what this one has completed, and tries the rest again.', fits: (run) => run.status === 'failed' || run.status === 'cancelled' },
  { verb: 'kill', label: 'Kill', about: 'It ends at once: none of its code runs, and nothing is undone.', isDangerous: true, takesReason: true, fits: isOpen },
];

export function Actions({ run, done }: { run: Run; done: () => void }) {
  const [open, setOpen] = useState<Act | 'signal' | 'ask' | null>(null);
  const close = () => setOpen(null);
  const waitsFor = (kind: string) => run.doing.now.filter((one) => one.kind === kind).map((one) => one.name);
  const waits = waitsFor('signal');
  const questions = waitsFor('update');
  const offered = ACTS.filter((act) => act.fits(run) && can(act.verb));
  return (
    <>
      {isOpen(run) && can('signal') && (
        <button class={`btn ${waits.length ? 'main' : ''}`} onClick={() => setOpen('signal')}>
          {waits.length ? `Answer ${plain(waits[0]!)}` : 'Signal'}
        </button>
      )}
      {isOpen(run) && can('update') && (
        <button class={`btn ${questions.length ? 'main' : ''}`} onClick={() => setOpen('ask')}>
          {questions.length ? `Ask ${plain(questions[0]!)}` : 'Ask'}
        </button>
      )}
      {offered.map((act) => (
        <button class={`btn ${act.isDangerous ? 'danger' : ''}`} onClick={() => setOpen(act)}>
          {act.label}
        </button>
      ))}
      {open === 'signal' && <Signal run={run} waits={waits} close={close} done={done} />}
      {open === 'ask' && <AskRun run={run} waits={questions} close={close} done={done} />}
      {open && open !== 'signal' && open !== 'ask' && <Confirm act={open} run={run} close={close} done={done} />}
    </>
  );
}

function Confirm({ act, run, close, done }: { act: Act; run: Run; close: () => void; done: () => void }) {
  const [reason, setReason] = useState('');
  const perform = async () => {
    const [path, query] = ofRun(run.id, act.verb);
    const answer = await ask<{ run: Run; remark?: string; retried_from?: string }>(path, { query, method: 'POST', body: act.takesReason ? { reason } : {} });
    if (act.verb === 'retry') {
      toast(`started ${answer.run.id}`);
      go(href('run', { id: answer.run.id }));
      return;
    }
    toast(answer.remark || `${act.verb}: done`);
    done();
  };
  return (
    <Dialog title={`${act.label} ${plain(run.id)}?`} verb={act.label} isDangerous={act.isDangerous ?? false} close={close} act={perform}>
      <p class="soft">{act.about}</p>
      {act.takesReason && (
        <label class="line">
          <span>Reason</span>
          <input class="field" autofocus value={reason} onInput={(event) => setReason(event.currentTarget.value)} placeholder="kept in its journal, with your name" />
        </label>
      )}
    </Dialog>
  );
}

function Signal({ run, waits, close, done }: { run: Run; waits: string[]; close: () => void; done: () => void }) {
  const [name, setName] = useState(waits[0] ?? '');
  const [value, setValue] = useState<unknown>(true);
  const [why, setWhy] = useState('');
  const send = async (verb: 'signal' | 'approve', body: Record<string, unknown>) => {
    const [path, query] = ofRun(run.id, verb);
    const answer = await ask<{ awaited: boolean }>(path, { query, method: 'POST', body });
    toast(answer.awaited ? `${name} was sent; the run waited for it` : `${name} was sent; the run takes it when it asks for it`);
    done();
  };
  const approve = (approved: boolean) => () => void send('approve', { name, approved, why }).then(close, (error: Error) => toast(error.message, 'failed'));
  return (
    <Dialog title={`Signal ${plain(run.id)}`} verb="Send" close={close} isDisabled={!name} act={() => send('signal', { name, value })}>
      <label class="line">
        <span>Name</span>
        <input class="field mono" value={name} onInput={(event) => setName(event.currentTarget.value)} list="waits" />
        <datalist id="waits">
          {waits.map((one) => (
            <option value={one} />
          ))}
        </datalist>
      </label>
      <label class="line">
        <span>Value, as JSON</span>
        <Json value={value} change={setValue} label="value" />
      </label>
      {can('approve') && (
        <fieldset class="line">
          <legend class="small dim">or answer it as a question: the value says yes or no, who and why</legend>
          <input class="field" aria-label="why" placeholder="why" value={why} onInput={(event) => setWhy(event.currentTarget.value)} />{' '}
          <button type="button" class="btn" disabled={!name} onClick={approve(true)}>
            Approve
          </button>{' '}
          <button type="button" class="btn" disabled={!name} onClick={approve(false)}>
            Deny
          </button>
        </fieldset>
      )}
    </Dialog>
  );
}
