// The page begins: who is there, and which page they want.
import './main.css';
import { signal } from '@preact/signals';
import { render } from 'preact';
import { Problem, signedOut } from './api/client';
import { Batch, Batches } from './pages/batches';
import { Login } from './pages/login';
import { LimitPage, Limits } from './pages/limits';
import { QueuePage, Queues } from './pages/queues';
import { RunPage } from './pages/run';
import { Runs } from './pages/runs';
import { SchedulePage, Schedules } from './pages/schedules';
import { Workers } from './pages/workers';
import { WorkflowPage, Workflows } from './pages/workflows';
import { Frame, Top } from './parts/frame';
import { Mark } from './parts/mark';
import { findMe, me, signIn } from './state/me';
import { href, page, parameter } from './state/route';
import './state/theme';

const refusal = signal('');
const outage = signal('');

async function begin(): Promise<void> {
  const code = new URLSearchParams(location.hash.slice(1)).get('code');
  if (code) {
    history.replaceState(null, '', location.pathname + location.search);
    try {
      await signIn({ code });
      return;
    } catch (error) {
      refusal.value = `The link no longer works: ${(error as Error).message}`;
    }
  }
  await findMe().catch((error: unknown) => {
    if (error instanceof Problem && error.status === 401) return;
    outage.value = (error as Error).message;
    window.setTimeout(() => void begin().then(() => me.value && (outage.value = '')), 3000);
  });
}

function Page() {
  switch (page.value) {
    case '':
    case 'runs':
    case 'login':
      return <Runs />;
    case 'run':
      return <RunPage key={parameter('id')} id={parameter('id')} />;
    case 'workflows':
      return <Workflows />;
    case 'workflow':
      return <WorkflowPage key={`${parameter('name')} ${parameter('version')}`} name={parameter('name')} />;
    case 'batches':
      return <Batches />;
    case 'batch':
      return <Batch key={parameter('id')} id={parameter('id')} />;
    case 'workers':
      return <Workers />;
    case 'queues':
      return parameter('name') ? <QueuePage key={parameter('name')} name={parameter('name')} /> : <Queues />;
    case 'limits':
      return parameter('name') ? <LimitPage key={parameter('name')} name={parameter('name')} /> : <Limits />;
    case 'schedules':
      return parameter('name') ? <SchedulePage key={parameter('name')} name={parameter('name')} /> : <Schedules />;
    default:
      return (
        <>
          <Top title="Nothing here" />
          <div class="card empty">
            <h2>There is no such page</h2>
            <a class="btn" href={href('')}>
              Show all runs
            </a>
          </div>
        </>
      );
  }
}

function Whole() {
  if (signedOut.value) return <Login problem={refusal.value} />;
  if (!me.value)
    return outage.value ? (
      <main class="login">
        <p class="notice is-failed" role="alert">
          <Mark status="failed" />
          {outage.value} Trying again every 3 seconds.
        </p>
      </main>
    ) : null;
  return (
    <Frame>
      <Page />
    </Frame>
  );
}

render(<Whole />, document.getElementById('page')!);
void begin();
