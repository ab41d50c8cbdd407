// What the app can run: as declared, and how it has gone so far.
import { useEffect, useState } from 'preact/hooks';
import { ask } from '../api/client';
import type { Schema, Stats, Workflow } from '../api/types';
import { fieldOf, resolve, typeText } from '../form/schema';
import { Picture } from '../graph/picture';
import { Top } from '../parts/frame';
import { usePolled } from '../parts/polled';
import { Trouble } from '../parts/trouble';
import { nav } from '../state/nav';
import { href } from '../state/route';
import { json, plain } from '../text';
import { count, local, took } from '../time';
import { current } from '../state/clock';
import { StartButton } from './start';

interface Manifest {
  workflows: Workflow[];
}

export function Workflows() {
  const { data, problem } = usePolled<Manifest>('workflows', 10_000);
  useEffect(() => {
    if (data) nav.value = { ...nav.value, workflows: count(data.workflows.length) };
  }, [data]);
  return (
    <>
      <Top title="Workflows">
        <StartButton />
      </Top>
      <Trouble problem={problem} />
      {data?.workflows.length === 0 && (
        <div class="card empty">
          <h2>No workflow is known here</h2>
          <p>Name the app that declares them, and they appear with their steps, versions and a form to start them.</p>
          <pre tabIndex={0} aria-label="command">holdfast dashboard MODULE:APP</pre>
        </div>
      )}
      {data?.workflows.map((one) => (
        <section class="card" aria-label={one.name}>
          <Summary workflow={one} />
        </section>
      ))}
    </>
  );
}

export function WorkflowPage({ name }: { name: string }) {
  const { data, problem } = usePolled<Manifest>('workflows', 10_000);
  const found = data?.workflows.filter((one) => one.name === name) ?? [];
  return (
    <>
      <Top title={plain(name)} of="workflows" />
      <Trouble problem={problem} />
      {data && found.length === 0 && (
        <div class="card empty">
          <h2>This server does not have the code of {plain(name)}</h2>
          <p>Its runs can still be read.</p>
          <a class="btn" href={href('', { workflow: name })}>
            Show its runs
          </a>
        </div>
      )}
      {found.map((one) => (
        <section class="card" aria-label={`${one.name} ${one.version}`}>
          <Summary workflow={one} isWhole />
        </section>
      ))}
    </>
  );
}

function Summary({ workflow, isWhole }: { workflow: Workflow; isWhole?: boolean }) {
  const [stats, setStats] = useState<Stats | null>(null);
  useEffect(() => {
    ask<Stats>('workflows/stats', { query: new URLSearchParams({ workflow: workflow.name }) }).then(setStats, () => undefined);
  }, [workflow]);
  const seconds = (value: number | null | undefined) => (value === null || value === undefined ? '–' : took(value * 1000));
  return (
    <div class="workflow">
      <header>
        <h2>
          <a href={href('workflow', { name: workflow.name })}>{plain(workflow.name)}</a>
        </h2>
        {workflow.version && <span class="dim">v{plain(workflow.version)}</span>}
        <span class="chip">{workflow.kind}</span>
        <span class="soft text">{plain(workflow.description)}</span>
        <span class="acts">
          <a class="btn" href={href('', { workflow: workflow.name })}>
            Runs
          </a>
          {!workflow.is_remote && <StartButton workflow={workflow} isQuiet={!isWhole} />}
        </span>
      </header>
      <div class="figures">
        <Figure value={stats?.success_rate == null ? '–' : `${(stats.success_rate * 100).toFixed(stats.success_rate > 0.999 ? 0 : 1)} %`} label="completed" />
        <Figure value={seconds(stats?.p50_seconds)} label="median" />
        <Figure value={seconds(stats?.p95_seconds)} label="p95" />
        <Figure value={seconds(stats?.p99_seconds)} label="p99" />
        <Figure value={stats ? count(stats.ended) : '–'} label={stats && stats.ended >= 1000 ? 'the last ends' : 'ended'} />
        {workflow.in_flight.map((one) => (
          <Figure value={`${count(one.count)}${one.is_capped ? '+' : ''}`} label={`in flight${one.version ? ` of v${one.version}` : ''}${one.is_served ? '' : ', which no worker serves'}`} isBad={!one.is_served && one.count > 0} />
        ))}
      </div>
      {stats && stats.recent.length > 1 && <Spark stats={stats} />}
      <Parts workflow={workflow} isWhole={isWhole ?? false} />
      {isWhole && (
        <>
          <Inputs schema={workflow.input} />
          {workflow.raises.length > 0 && <p class="small soft">Raises {workflow.raises.join(', ')}</p>}
        </>
      )}
    </div>
  );
}

/** What it takes: a line per value, and the schema for who wants all of it. */
function Inputs({ schema }: { schema: Schema }) {
  const field = fieldOf(schema, schema);
  const values = field.kind === 'object' ? field.properties : [];
  return (
    <>
      <h3>Input</h3>
      {values.length > 0 && (
        <table class="plain inputs" aria-label="input">
          <tbody>
            {values.map(([name, given, isRequired]) => {
              const found = resolve(given, schema);
              return (
                <tr>
                  <td class="mono text">{plain(name)}</td>
                  <td class="soft text">{plain(typeText(given, schema))}</td>
                  <td class="dim text">{isRequired ? 'required' : found.default === undefined ? 'optional' : `if not given: ${plain(json(found.default))}`}</td>
                  <td class="soft text">{plain(found.description ?? '')}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
      {values.length === 0 && field.kind === 'object' && <p class="soft">None: it is started without arguments.</p>}
      <details>
        <summary class="small soft">JSON Schema</summary>
        <pre class="value" tabIndex={0} aria-label="schema of the input">
          {json(schema)}
        </pre>
      </details>
    </>
  );
}

function Figure({ value, label, isBad }: { value: string; label: string; isBad?: boolean }) {
  return (
    <div class="figure">
      <b class={isBad ? 'error-text' : ''}>{value}</b>
      <span>{label}</span>
    </div>
  );
}

/** The last ends, oldest first: how long each took, coloured by how it ended. */
function Spark({ stats }: { stats: Stats }) {
  const ends = [...stats.recent].sort((a, b) => (a.at < b.at ? -1 : 1));
  const most = Math.max(...ends.map((one) => one.seconds), 0.001);
  const wide = 100 / Math.max(30, ends.length);
  return (
    <svg class="spark" role="group" aria-label={`the last ${ends.length} ends`}>
      {ends.map((one, index) => {
        const height = Math.max(3, (one.seconds / most) * 28);
        return (
          <a href={href('run', { id: one.run })} aria-label={plain(one.run)}>
            <title>{`${plain(one.run)}: ${one.status} after ${took(one.seconds * 1000)}, ${local(Date.parse(one.at), current())}`}</title>
            <rect class={`is-${one.status}`} x={`${index * wide}%`} y={30 - height} width={`${wide * 0.8}%`} height={height} rx="1" fill="var(--b)" />
          </a>
        );
      })}
    </svg>
  );
}

function Parts({ workflow, isWhole }: { workflow: Workflow; isWhole: boolean }) {
  const declared = workflow.kind === 'machine' ? workflow.states : workflow.steps;
  if (declared.length && isWhole) {
    const edges = declared.flatMap((part) => [...(part.leads_to ?? []).map((to) => [part.name, to] as const), ...(part.needs ?? []).map((from) => [from, part.name] as const)]);
    return <Picture boxes={declared.map((part) => ({ name: part.name, note: part.kind, status: 'untouched' }))} edges={edges} taken={new Set()} label={workflow.kind === 'machine' ? 'states' : 'steps'} />;
  }
  if (declared.length)
    return (
      <div class="parts">
        {declared.map((part) => (
          <span class="part text">{plain(part.name)}</span>
        ))}
      </div>
    );
  if (!workflow.checkpoints.length) return null;
  return (
    <div class="parts">
      <span class="small dim">its runs have asked for</span>
      {workflow.checkpoints.map((one) => (
        <span class="part seen text" title={one.kind}>
          {plain(one.name)}
        </span>
      ))}
      <span class="small dim">so far; the code is the plan</span>
    </div>
  );
}
