// Starting a run: a form made from the workflow's schema.
import { useEffect, useState } from 'preact/hooks';
import { ask } from '../api/client';
import type { Run, Workflow } from '../api/types';
import { Fields, Json } from '../form/fields';
import { initial } from '../form/schema';
import { Dialog } from '../parts/dialog';
import { can, me } from '../state/me';
import { go, href } from '../state/route';
import { toast } from '../state/toasts';

/** `isQuiet`: one of many on a page. */
export function StartButton({ workflow, isQuiet }: { workflow?: Workflow; isQuiet?: boolean }) {
  const [isOpen, setOpen] = useState(false);
  if (!can('start') || !me.value?.has_app) return null;
  return (
    <>
      <button class={`btn ${isQuiet ? '' : 'main'}`} onClick={() => setOpen(true)}>
        Start a run
      </button>
      {isOpen && <Start given={workflow ?? null} close={() => setOpen(false)} />}
    </>
  );
}

function Start({ given, close }: { given: Workflow | null; close: () => void }) {
  const [all, setAll] = useState<Workflow[]>(given ? [given] : []);
  const [place, setPlace] = useState(0);
  const [problem, setProblem] = useState('');
  useEffect(() => {
    if (given) return;
    ask<{ workflows: Workflow[] }>('workflows').then(
      (found) => setAll(found.workflows.filter((one) => !one.is_remote)),
      (error: Error) => setProblem(error.message),
    );
  }, []);
  const chosen = all[place];
  if (!chosen) return <Dialog title="Start a run" close={close}>{problem || 'This app declares no workflow. Write one, and run `holdfast dev` again.'}</Dialog>;
  return <Form key={chosen.id} workflow={chosen} all={all} place={place} choose={setPlace} close={close} />;
}

function Form({ workflow, all, place, choose, close }: { workflow: Workflow; all: Workflow[]; place: number; choose: (place: number) => void; close: () => void }) {
  const [input, setInput] = useState<unknown>(() => initial(workflow.input, workflow.input));
  const [isText, setText] = useState(false);
  const [id, setId] = useState('');
  const [delay, setDelay] = useState('');
  const values = (input ?? {}) as Record<string, unknown>;
  const required = new Set(workflow.input.required ?? []);
  const act = async () => {
    const body = { workflow: workflow.name, version: workflow.version, input, ...(id ? { id } : {}), ...(delay ? { delay } : {}) };
    const { run, outcome } = await ask<{ run: Run; outcome: string }>('runs', { method: 'POST', body });
    toast(outcome === 'existing' ? `run ${run.id} was there already` : `started ${run.id}`);
    go(href('run', { id: run.id }));
  };
  return (
    <Dialog title="Start a run" verb="Start" close={close} act={act}>
      <div class="form">
        {all.length > 1 ? (
          <label class="line">
            <span>Workflow</span>
            <select class="field" value={place} onChange={(event) => choose(event.currentTarget.selectedIndex)}>
              {all.map((one, index) => (
                <option value={index}>
                  {one.name} {one.version && `v${one.version}`}
                </option>
              ))}
            </select>
          </label>
        ) : (
          <p>
            <b class="mono">{workflow.name}</b> <span class="dim">{workflow.description}</span>
          </p>
        )}
        {isText ? (
          <label class="line">
            <span>Input as JSON</span>
            <Json value={input} change={setInput} label="input" />
          </label>
        ) : (
          Object.entries(workflow.input.properties ?? {}).map(([name, schema]) => (
            <Fields key={name} name={name} schema={schema} root={workflow.input} value={values[name]} isRequired={required.has(name)} change={(next) => setInput({ ...values, [name]: next })} />
          ))
        )}
        <div class="two">
          <label class="line">
            <span>Id <span class="dim small">optional; the same id gives the same run</span></span>
            <input class="field mono" value={id} onInput={(event) => setId(event.currentTarget.value)} />
          </label>
          <label class="line">
            <span>Delay <span class="dim small">optional, such as 5m</span></span>
            <input class="field" value={delay} onInput={(event) => setDelay(event.currentTarget.value)} />
          </label>
        </div>
        <div>
          <button type="button" class="btn bare" onClick={() => setText(!isText)}>
            {isText ? 'as a form' : 'as JSON'}
          </button>
        </div>
      </div>
    </Dialog>
  );
}
