from archcli.render.picture.architecture.style import *
from archcli.render.picture.architecture.shapes import Shape
class Drawn:
    def __init__(s, title, letter, hue, w, h, widest, path=None):
        s.title,s.letter,s.hue,s.w,s.h,s.widest,s.path=title,letter,hue,w,h,widest,path
    def natural(s, scale): return (max([s.w]+[float(f)*scale+k for f,k in s.widest]), s.h)
    def shapes(s,x,y,width,scale):
        inside=[rect(x,y,width,s.h,"panel thin s-hair",8.0), text(x+14,y+24,f"{s.letter} {s.title}","head")]
        for i,(f,k) in enumerate(s.widest): inside.append(rect(x+width/2-f*scale/2,y+40+i*16,f*scale,8,f"solid-{s.hue}"))
        yield Shape("g",{"data_kind":s.path} if s.path else {},tuple(inside))
def panel(part):
    return Drawn(part.title,part.letter,part.hue,width_of(part.title,"head")+60,320 if part.hue!="dense" else 250,[(n.width.value,40.0) for n in part.nodes])
def wiring(kind): return Drawn(kind.title,"","plain",200,250,[],kind.path)
